package exec

import (
	"math"

	"ckptplan/internal/model"
)

// hostBackCall is one step of an op's backward as its kernel sees it. Forward tensors can be read only if the op's row
// saves them.
type hostBackCall struct {
	node *hostNode
	op   *model.Op
	step *model.Step
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

func backGelu(c *hostBackCall) {
	// Φ(x) + x·φ(x)
	f := func(x float64) float64 {
		return 0.5*(1+math.Erf(x/math.Sqrt2)) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	}
	if c.op.Attr.A == 1 {
		f = func(x float64) float64 {
			t := math.Tanh(geluInner(x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		}
	}
	fromOutput(f)(c)
}

func backDropout(c *hostBackCall) {
	g, mask := c.arg(0), c.node.value(model.O1).bools()
	keep := float32(1 / (1 - c.op.Drop))
	r := make([]float32, len(g))
	for i := range r {
		if mask[i] {
			r[i] = g[i] * keep
		}
	}
	c.out.setReals(r)
}

// backSlice, backSelect and backPad put the gradient where its elements came from, among zeros.
func backSlice(c *hostBackCall) {
	i, step := int(c.op.Attr.A), max(1, c.op.Attr.C)
	t := c.out.narrow(i, c.op.Attr.B, c.shape(model.G0).D[i])
	t.stride = t.stride.With(i, step*t.stride.D[i])
	t.copyFrom(c.node.value(model.G0))
}

func backSelect(c *hostBackCall) {
	i := int(c.op.Attr.A)
	t := c.out.narrow(i, c.op.Attr.B, 1)
	t.shape, t.stride = t.shape.Remove(i), t.stride.Remove(i)
	t.copyFrom(c.node.value(model.G0))
}

func backPad(c *hostBackCall) {
	last := int(c.out.shape.N) - 1
	c.out.copyFrom(c.node.value(model.G0).narrow(last, 0, c.out.shape.D[last]))
}

// backLayerNorm makes the gradient of x, γ or β. With x̂ = (x − mean)·rstd and d = grad·γ, that of x is
// rstd·(d − mean(d) − x̂·mean(d·x̂)).
func backLayerNorm(c *hostBackCall) {
	g := c.node.value(model.G0).reals()
	n := int(c.shape(model.I0).At(-1))
	if c.step.Out == model.D2 {
		c.out.setReals(sumRows(g, n, func(_, _ int, g float64) float64 { return g }))
		return
	}
	x, mean, rstd := c.node.value(model.I0).reals(), c.node.value(model.O1).reals(), c.node.value(model.O2).reals()
	hat := func(r, i int) float64 { return (float64(x[r*n+i]) - float64(mean[r])) * float64(rstd[r]) }
	if c.step.Out == model.D1 {
		c.out.setReals(sumRows(g, n, func(r, i int, g float64) float64 { return g * hat(r, i) }))
		return
	}
	weight := weights(c, n)
	y := make([]float32, len(g))
	for r := range len(g) / n {
		m, mh := 0.0, 0.0
		for i := range n {
			d := float64(g[r*n+i]) * weight(i)
			m += d
			mh += d * hat(r, i)
		}
		m, mh = m/float64(n), mh/float64(n)
		for i := range n {
			y[r*n+i] = float32(float64(rstd[r]) * (float64(g[r*n+i])*weight(i) - m - hat(r, i)*mh))
		}
	}
	c.out.setReals(y)
}

// weights are a norm's γ, or ones where it has none.
func weights(c *hostBackCall, n int) func(i int) float64 {
	if c.node.meta(model.I1).shape.Count() != int64(n) || !c.node.has(model.I1) {
		return func(int) float64 { return 1 }
	}
	w := c.node.value(model.I1).reals()
	return func(i int) float64 { return float64(w[i]) }
}

// sumRows sums f over the rows of a [rows, n] gradient.
func sumRows(g []float32, n int, f func(r, i int, g float64) float64) []float32 {
	total := make([]float64, n)
	for r := range len(g) / n {
		for i := range n {
			total[i] += f(r, i, float64(g[r*n+i]))
		}
	}
	out := make([]float32, n)
	for i, t := range total {
		out[i] = float32(t)
	}
	return out
}

// backRMSNorm makes the gradient of x or γ. With d = grad·γ and x̂ = x·rstd, that of x is rstd·(d − x̂·mean(d·x̂)).
func backRMSNorm(c *hostBackCall) {
	g, x, rstd := c.node.value(model.G0).reals(), c.node.value(model.I0).reals(), c.node.value(model.O1).reals()
	n := int(c.shape(model.I0).At(-1))
	hat := func(r, i int) float64 { return float64(x[r*n+i]) * float64(rstd[r]) }
	if c.step.Out == model.D1 {
		c.out.setReals(sumRows(g, n, func(r, i int, g float64) float64 { return g * hat(r, i) }))
		return
	}
	weight := weights(c, n)
	y := make([]float32, len(g))
	for r := range len(g) / n {
		mh := 0.0
		for i := range n {
			mh += float64(g[r*n+i]) * weight(i) * hat(r, i)
		}
		mh /= float64(n)
		for i := range n {
			y[r*n+i] = float32(float64(rstd[r]) * (float64(g[r*n+i])*weight(i) - hat(r, i)*mh))
		}
	}
	c.out.setReals(y)
}

// backSoftmax is y·(grad − Σ grad·y) over each row.
func backSoftmax(c *hostBackCall) {
	g, y := c.node.value(model.G0).reals(), c.node.value(model.O0).reals()
	n := int(c.out.shape.At(-1))
	out := make([]float32, len(g))
	for r := 0; r < len(g); r += n {
		s := dot(g[r:r+n], y[r:r+n])
		for i := r; i < r+n; i++ {
			out[i] = float32(float64(y[i]) * (float64(g[i]) - s))
		}
	}
	c.out.setReals(out)
}

// backLogSoftmax is grad − exp(y)·Σ grad over each row.
func backLogSoftmax(c *hostBackCall) {
	g, y := c.node.value(model.G0).reals(), c.node.value(model.O0).reals()
	n := int(c.out.shape.At(-1))
	out := make([]float32, len(g))
	for r := 0; r < len(g); r += n {
		s := sum(g[r : r+n])
		for i := r; i < r+n; i++ {
			out[i] = float32(float64(g[i]) - math.Exp(float64(y[i]))*s)
		}
	}
	c.out.setReals(out)
}

func backNLL(c *hostBackCall) {
	g := c.node.value(model.G0).reals()[0]
	target, counted := c.node.value(model.I1).ints(), c.node.value(model.O1).reals()[0]
	n := int(c.out.shape.At(-1))
	out := make([]float32, c.out.count())
	for r, t := range target {
		if t != ignored {
			out[r*n+int(t)] = -g / counted
		}
	}
	c.out.setReals(out)
}

func backMSE(c *hostBackCall) {
	g := c.node.value(model.G0).reals()[0]
	x, y := c.node.value(model.I0).reals(), c.node.value(model.I1).reals()
	out := make([]float32, len(x))
	for i := range out {
		out[i] = g * 2 * (x[i] - y[i]) / float32(len(x))
	}
	c.out.setReals(out)
}

// backConv2D makes the gradient of the pixels, of the kernel or of the bias.
func backConv2D(c *hostBackCall) {
	grad := channelsFirst(c.node.value(model.G0))
	w := c.shape(model.I1)
	h, width := w.D[0], w.Count()/w.D[0]
	rows := grad.count() / h
	g := scratch(c.out.buf.engine, grad.reals(), rows, h)
	switch c.step.Out {
	case model.D2:
		c.out.setReals(sumRows(g.reals(), int(h), func(_, _ int, g float64) float64 { return g }))
	case model.D1:
		c.out.setReals(matmul(g.swapped(0, 1), patches(c.node.value(model.I0), w)))
	default:
		cols := matmul(g, c.node.value(model.I1).asMatrix(h, width))
		unpatch(c.out, w, cols)
	}
}

// unpatch puts rows of patches back to their pixels.
func unpatch(t hostTensor, w model.Dims, cols []float32) {
	n, ch, p := t.shape.D[0], t.shape.D[1], w.D[2]
	size := t.shape.D[2]
	side := size / p
	out := make([]float32, t.count())
	at := int64(0)
	for b := range n {
		for r := range side {
			for c := range side {
				for k := range ch {
					for i := range p {
						to := ((b*ch+k)*size+r*p+i)*size + c*p
						copy(out[to:to+p], cols[at:at+p])
						at += p
					}
				}
			}
		}
	}
	t.setReals(out)
}

// backAttention runs the kernel once a node and hands out its gradients.
func backAttention(c *hostBackCall) {
	n := c.node
	if n.attention == nil {
		var bias []float32
		if n.meta(model.I3).shape.N > 0 {
			bias = n.value(model.I3).reals()
		}
		s := newHostScores(c.op, n.value(model.I0), n.value(model.I1), n.value(model.I2), bias)
		if c.op.Kind == model.OpFlashAttention {
			state := n.value(model.O2).ints()
			s.from(hostRandom{key: uint64(state[0]), offset: uint64(state[1])})
		} else {
			s.from(hostRandom{key: uint64(n.value(model.O2).ints()[0]), offset: uint64(n.value(model.O3).ints()[0])})
		}
		lse := n.value(model.O1).narrow(2, 0, int64(s.rows))
		g := s.backward(n.value(model.G0).reals(), n.value(model.O0).reals(), lse.reals())
		n.attention = &g
	}
	g := n.attention
	c.out.setReals([][]float32{g.q, g.k, g.v, g.bias}[c.step.Out.Input()])
}

// backEmbedding adds each row's gradient to the table's row that it was looked up from.
func backEmbedding(c *hostBackCall) {
	g, ids := c.node.value(model.G0).reals(), c.node.value(model.I1).ints()
	n := int(c.out.shape.At(-1))
	out := make([]float32, c.out.count())
	for r, id := range ids {
		row := out[int(id)*n : (int(id)+1)*n]
		for i, v := range g[r*n : (r+1)*n] {
			row[i] += v
		}
	}
	c.out.setReals(out)
}
