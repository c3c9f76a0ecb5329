package exec

import (
	"ckptplan/internal/model"
)

// hostBackCall is one step of an op's backward as its kernel sees it. Forward tensors can be read only if the op's row
// saves them.
type hostBackCall struct {
	node *hostNode
	op   *model.Op
	step *model.Call
	out  hostTensor
}

// hostBackward is the kernel of every backward step that makes a new tensor, by its ATen name. Views, sums to a shape,
// casts and matrix products are the same for all ops: see hostNode.step.
var hostBackward map[string]func(c *hostBackCall)

func init() {
	hostBackward = map[string]func(c *hostBackCall){
		"aten.mul":                                          backMul,
		"aten.div":                                          backDiv,
		"aten.neg":                                          func(c *hostBackCall) { c.out.setReals(each(c.arg(0), func(x float32) float32 { return -x })) },
		"aten.pow":                                          backPow,
		"aten.tanh_backward":                                fromOutput(func(y float64) float64 { return 1 - y*y }),
		"aten.sigmoid_backward":                             fromOutput(func(y float64) float64 { return y * (1 - y) }),
		"aten.silu_backward":                                fromOutput(func(x float64) float64 { s := sigmoid(x); return s * (1 + x*(1-s)) }),
		"aten.gelu_backward":                                backGelu,
		"aten.threshold_backward":                           fromOutput(step),
		"aten.native_dropout_backward":                      backDropout,
		"aten.slice_backward":                               backSlice,
		"aten.select_backward":                              backSelect,
		"aten.constant_pad_nd":                              backPad,
		"aten.native_layer_norm_backward":                   backLayerNorm,
		"aten._fused_rms_norm_backward":                     backRMSNorm,
		"aten._softmax_backward_data":                       backSoftmax,
		"aten._log_softmax_backward_data":                   backLogSoftmax,
		"aten.nll_loss_backward":                            backNLL,
		"aten.mse_loss_backward":                            backMSE,
		"aten.convolution_backward":                         backConv2D,
		"aten._scaled_dot_product_flash_attention_backward": backAttention,
		"aten._scaled_dot_product_efficient_attention_backward": backAttention,
		"aten.embedding_dense_backward":                         backEmbedding,
	}
}

// arg is the step's argument k broadcast to the result's shape.
func (c *hostBackCall) arg(k int) []float32 {
	return c.node.value(c.step.Args[k]).broadcast(c.out.shape).reals()
}

// args is how many arguments the step has.
func (c *hostBackCall) args() int {
	n := 0
	for n < len(c.step.Args) && c.step.Args[n] != model.NoSlot {
		n++
	}
	return n
}

// shape of the op's tensor in a slot: always known, saved or not.
func (c *hostBackCall) shape(s model.Slot) model.Dims { return c.node.meta(s).shape }

// backMul is a product of two, or of one and a number.
func backMul(c *hostBackCall) {
	x := c.arg(0)
	if c.args() > 1 {
		y := c.arg(1)
		r := make([]float32, len(x))
		for i := range r {
			r[i] = x[i] * y[i]
		}
		c.out.setReals(r)
		return
	}
	var f float32
	switch c.op.Kind {
	case model.OpMulScalar, model.OpPowScalar: // d(x·s) = s, d(xⁿ) = n·xⁿ⁻¹
		f = float32(c.op.Scalar)
	case model.OpRsqrt: // d(x^−½) = −½·(x^−½)³
		f = -0.5
	default:
		hostFail("the host engine does not know by what %s multiplies in backward", c.op.Row().Aten)
	}
	c.out.setReals(each(x, func(v float32) float32 { return v * f }))
}

// backDiv is a quotient of two, or of one and a number.
func backDiv(c *hostBackCall) {
	x := c.arg(0)
	if c.args() > 1 {
		y := c.arg(1)
		r := make([]float32, len(x))
		for i := range r {
			r[i] = x[i] / y[i]
		}
		c.out.setReals(r)
		return
	}
	f := float32(c.op.Scalar)
	if c.op.Kind == model.OpMean {
		f = float32(c.shape(model.I0).At(-1))
	}
	c.out.setReals(each(x, func(v float32) float32 { return v / f }))
}

// backPow is x^(n−1) of a power, y³ of a reciprocal root y.
func backPow(c *hostBackCall) {
	n := float32(c.op.Scalar - 1)
	if c.op.Kind == model.OpRsqrt {
		n = 3
	}
	c.out.setReals(each(c.arg(0), func(x float32) float32 { return power(x, n) }))
}

// fromOutput is grad · f(second argument).
func fromOutput(f func(y float64) float64) func(c *hostBackCall) {
	return func(c *hostBackCall) {
		g, y := c.arg(0), c.arg(1)
		r := make([]float32, len(g))
		for i := range r {
			r[i] = float32(float64(g[i]) * f(float64(y[i])))
		}
		c.out.setReals(r)
	}
}

func step(y float64) float64 {
	if y > 0 {
		return 1
	}
	return 0
}
