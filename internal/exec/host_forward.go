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
		model.OpDiv:       elementwise(func(x, y float32) float32 { return x / y }),
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

// draws is how many random numbers the op takes: the generator moves on by them whether or not its kernel runs.
func draws(g *model.Graph, op *model.Op) int64 {
	if op.Drop == 0 {
		return 0
	}
	in := g.Inputs(op)
	q := g.Tensors[in[0]].Shape
	if op.Row().Work == model.Attention {
		return q.D[0] * q.D[1] * q.D[2] * g.Tensors[in[1]].Shape.D[2]
	}
	return q.Count()
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

func forwardCat(c *hostCall) {
	i, at := int(c.op.Attr.A), int64(0)
	for _, x := range c.in {
		n := x.shape.D[i]
		c.out[0].narrow(i, at, n).copyFrom(x)
		at += n
	}
}

// forwardStack puts tensors side by side along a new dimension.
func forwardStack(c *hostCall) {
	i := int(c.op.Attr.A)
	for k, x := range c.in {
		t := c.out[0].narrow(i, int64(k), 1)
		t.shape, t.stride = t.shape.Remove(i), t.stride.Remove(i)
		t.copyFrom(x)
	}
}

// forwardPad appends zeros to the last dimension.
func forwardPad(c *hostCall) {
	last := int(c.in[0].shape.N) - 1
	c.out[0].narrow(last, 0, c.in[0].shape.D[last]).copyFrom(c.in[0])
}

// forwardGelu is x·Φ(x), or its tanh approximation 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
func forwardGelu(c *hostCall) {
	f := func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
	if c.op.Attr.A == 1 {
		f = func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluInner(x))) }
	}
	unary(f)(c)
}

func geluInner(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

// forwardDropout keeps x/(1−p) where the mask is set.
func forwardDropout(c *hostCall) {
	r := c.engine.generator()
	x, p := c.in[0].reals(), c.op.Drop
	mask := r.mask(len(x), p)
	y := make([]float32, len(x))
	keep := float32(1 / (1 - p))
	for i, v := range x {
		if mask[i] {
			y[i] = v * keep
		}
	}
	c.out[0].setReals(y)
	c.out[1].setBools(mask)
}

func forwardMean(c *hostCall) {
	n := int(c.in[0].shape.At(-1))
	x := c.in[0].reals()
	r := make([]float32, len(x)/n)
	for i := range r {
		r[i] = float32(sum(x[i*n:(i+1)*n]) / float64(n))
	}
	c.out[0].setReals(r)
}

func sum(x []float32) float64 {
	s := 0.0
	for _, v := range x {
		s += float64(v)
	}
	return s
}

// forwardLayerNorm is (x − mean)·rstd·γ + β over the last dimension, rstd = 1/√(variance + ε).
func forwardLayerNorm(c *hostCall) {
	x := c.in[0].reals()
	n := int(c.in[0].shape.At(-1))
	y := make([]float32, len(x))
	mean, rstd := make([]float32, len(x)/n), make([]float32, len(x)/n)
	var weight, bias []float32
	if len(c.in) > 1 {
		weight = c.in[1].reals()
	}
	if len(c.in) > 2 {
		bias = c.in[2].reals()
	}
	for r := range mean {
		row, out := x[r*n:(r+1)*n], y[r*n:(r+1)*n]
		mu := sum(row) / float64(n)
		v := 0.0
		for _, a := range row {
			v += (float64(a) - mu) * (float64(a) - mu)
		}
		s := 1 / math.Sqrt(v/float64(n)+c.op.Scalar)
		mean[r], rstd[r] = float32(mu), float32(s)
		for i, a := range row {
			o := (float64(a) - mu) * s
			if weight != nil {
				o *= float64(weight[i])
			}
			if bias != nil {
				o += float64(bias[i])
			}
			out[i] = float32(o)
		}
	}
	c.out[0].setReals(y)
	c.out[1].setReals(mean)
	c.out[2].setReals(rstd)
}

// forwardRMSNorm is x·rstd·γ over the last dimension, rstd = 1/√(mean(x²) + ε).
func forwardRMSNorm(c *hostCall) {
	x, weight := c.in[0].reals(), c.in[1].reals()
	n := len(weight)
	y, rstd := make([]float32, len(x)), make([]float32, len(x)/n)
	for r := range rstd {
		row := x[r*n : (r+1)*n]
		v := 0.0
		for _, a := range row {
			v += float64(a) * float64(a)
		}
		s := 1 / math.Sqrt(v/float64(n)+c.op.Scalar)
		rstd[r] = float32(s)
		for i, a := range row {
			y[r*n+i] = float32(float64(a) * s * float64(weight[i]))
		}
	}
	c.out[0].setReals(y)
	c.out[1].setReals(rstd)
}

func softmaxRows(x []float32, width int64) []float32 {
	y := make([]float32, len(x))
	n := int(width)
	for r := 0; r < len(x); r += n {
		top, total := logSumExp(x[r : r+n])
		for i, v := range x[r : r+n] {
			y[r+i] = float32(math.Exp(float64(v)-top) / total)
		}
	}
	return y
}

func logSoftmaxRows(x []float32, width int64) []float32 {
	y := make([]float32, len(x))
	n := int(width)
	for r := 0; r < len(x); r += n {
		top, total := logSumExp(x[r : r+n])
		shift := top + math.Log(total)
		for i, v := range x[r : r+n] {
			y[r+i] = float32(float64(v) - shift)
		}
	}
	return y
}

// logSumExp is the largest value of a row and Σ exp(x − largest).
func logSumExp(row []float32) (top, total float64) {
	top = math.Inf(-1)
	for _, v := range row {
		top = math.Max(top, float64(v))
	}
	for _, v := range row {
		total += math.Exp(float64(v) - top)
	}
	return top, total
}

// ignored is the class that cross-entropy leaves out (ignore_index).
const ignored = -100

// forwardNLL is the mean of −log p(class), and how many rows counted.
func forwardNLL(c *hostCall) {
	lp, target := c.in[0].reals(), c.in[1].ints()
	n := int(c.in[0].shape.At(-1))
	s, counted := 0.0, 0
	for r, t := range target {
		if t == ignored {
			continue
		}
		s -= float64(lp[r*n+int(t)])
		counted++
	}
	c.out[0].setReals([]float32{float32(s / float64(counted))})
	c.out[1].setReals([]float32{float32(counted)})
}

// forwardMSE is mean((x − y)²).
func forwardMSE(c *hostCall) {
	x, y := c.in[0].reals(), c.in[1].reals()
	s := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		s += d * d
	}
	c.out[0].setReals([]float32{float32(s / float64(len(x)))})
}

// forwardEmbedding looks rows up.
func forwardEmbedding(c *hostCall) {
	table, ids := c.in[0].reals(), c.in[1].ints()
	n := int(c.in[0].shape.At(-1))
	y := make([]float32, 0, len(ids)*n)
	for _, id := range ids {
		y = append(y, table[int(id)*n:(int(id)+1)*n]...)
	}
	c.out[0].setReals(y)
}
