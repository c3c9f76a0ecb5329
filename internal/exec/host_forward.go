package exec

import (
	"math"

	"ckptplan/internal/model"
)

// hostCall is one op of the forward pass as its kernel sees it: inputs to read, outputs to write.
type hostCall struct {
	engine *hostEngine
	op     *model.Op
	name   string // the ATen name; of a plain op, what it computes
	in     []hostTensor
	out    []hostTensor
}

// hostForward is the forward kernel of every op that the host engine runs; views need none.
var hostForward map[model.Kind]func(c *hostCall)

func init() {
	hostForward = map[model.Kind]func(c *hostCall){
		model.OpClone:     func(c *hostCall) { c.out[0].copyFrom(c.in[0]) },
		model.OpToCopy:    func(c *hostCall) { c.out[0].copyFrom(c.in[0]) },
		model.OpCat:       forwardCat,
		model.OpStack:     forwardStack,
		model.OpPad:       forwardPad,
		model.OpAdd:       elementwise(func(x, y float32) float32 { return x + y }),
		model.OpSub:       elementwise(func(x, y float32) float32 { return x - y }),
		model.OpMul:       elementwise(func(x, y float32) float32 { return x * y }),
		model.OpAddScalar: withScalar(func(x, s float32) float32 { return x + s }),
		model.OpMulScalar: withScalar(func(x, s float32) float32 { return x * s }),
		model.OpDivScalar: withScalar(func(x, s float32) float32 { return x / s }),
		model.OpPowScalar: withScalar(power),
		model.OpNeg:       unary(func(x float64) float64 { return -x }),
		model.OpRsqrt:     unary(func(x float64) float64 { return 1 / math.Sqrt(x) }),
		model.OpTanh:      unary(math.Tanh),
		model.OpSigmoid:   unary(sigmoid),
		model.OpSilu:      unary(func(x float64) float64 { return x * sigmoid(x) }),
		model.OpRelu:      unary(func(x float64) float64 { return math.Max(x, 0) }),
		model.OpGelu:      forwardGelu,
		model.OpDropout:   forwardDropout,
		model.OpMean:      forwardMean,
		model.OpLayerNorm: forwardLayerNorm,
		model.OpRMSNorm:   forwardRMSNorm,
		model.OpSoftmax:   func(c *hostCall) { c.out[0].setReals(softmaxRows(c.in[0].reals(), c.in[0].shape.At(-1))) },
		model.OpLogSoftmax: func(c *hostCall) {
			c.out[0].setReals(logSoftmaxRows(c.in[0].reals(), c.in[0].shape.At(-1)))
		},
		model.OpNLLLoss: forwardNLL,
		model.OpMSELoss: forwardMSE,
		model.OpMM:      func(c *hostCall) { c.out[0].setReals(matmul(c.in[0], c.in[1])) },
		model.OpBMM:     func(c *hostCall) { c.out[0].setReals(matmul(c.in[0], c.in[1])) },
		model.OpAddMM: func(c *hostCall) {
			c.out[0].setReals(addRow(matmul(c.in[1], c.in[2]), c.in[0].reals()))
		},
		model.OpBMMAdd: func(c *hostCall) {
			c.out[0].setReals(plus(matmul(c.in[1], c.in[2]), c.in[0].broadcast(c.out[0].shape).reals()))
		},
		model.OpConv2D:             forwardConv2D,
		model.OpFlashAttention:     forwardAttention,
		model.OpEfficientAttention: forwardAttention,
		model.OpEmbedding:          forwardEmbedding,
		model.OpPlain:              forwardPlain,
		model.OpArgument:           func(*hostCall) {},
	}
}

func elementwise(f func(x, y float32) float32) func(c *hostCall) {
	return func(c *hostCall) {
		to := c.out[0].shape
		x, y := c.in[0].broadcast(to).reals(), c.in[1].broadcast(to).reals()
		r := make([]float32, len(x))
		for i := range r {
			r[i] = f(x[i], y[i])
		}
		c.out[0].setReals(r)
	}
}

func withScalar(f func(x, s float32) float32) func(c *hostCall) {
	return func(c *hostCall) {
		s := float32(c.op.Scalar)
		c.out[0].setReals(each(c.in[0].reals(), func(x float32) float32 { return f(x, s) }))
	}
}

func unary(f func(x float64) float64) func(c *hostCall) {
	return func(c *hostCall) {
		c.out[0].setReals(each(c.in[0].reals(), func(x float32) float32 { return float32(f(float64(x))) }))
	}
}

func each(x []float32, f func(float32) float32) []float32 {
	r := make([]float32, len(x))
	for i, v := range x {
		r[i] = f(v)
	}
	return r
}

// power is xⁿ for small whole n.
func power(x, n float32) float32 {
	r := float32(1)
	for range int(n) {
		r *= x
	}
	return r
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
