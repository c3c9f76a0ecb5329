package host

import (
	"math"

	"ckptplan/internal/exec"
	"ckptplan/internal/model"
)

// plainKernels are the ops without gradient, by the name that the profiler shows: positions, masks, rotary tables, shifted
// labels.
var plainKernels map[string]func(c *forwardCall)

func init() {
	plainKernels = map[string]func(c *forwardCall){
		"aten.arange":          plainInts(func(_ *forwardCall, i int64) int64 { return i }),
		"aten.add":             plainAdd,
		"aten.sub":             plainInts(func(c *forwardCall, i int64) int64 { return c.in[0].ints()[i] - int64(c.op.Scalar) }),
		"aten.gather":          plainInts(func(c *forwardCall, i int64) int64 { return c.in[0].ints()[c.in[1].ints()[i]] }),
		"aten.constant_pad_nd": plainPadLabels,
		"aten.clamp":           plainInts(func(c *forwardCall, i int64) int64 { return c.in[0].ints()[i] }), // positions lie in the sequence
		"aten.clone":           plainShiftLabels,
		"aten._to_copy":        func(c *forwardCall) { c.out[0].copyFrom(c.in[0]) },
		"aten.bmm":             plainOuter,
		"aten.cat":             plainTwice,
		"aten.cos":             unary(math.Cos),
		"aten.sin":             unary(math.Sin),
		"aten.mul":             withScalar(func(x, s float32) float32 { return x * s }),
		"aten.new_ones":        plainMask(func(*forwardCall, int64, int64) bool { return true }),
		"aten.ones":            plainOnes,
		"aten.cumsum":          plainCumSum,
		"aten.full":            plainFull,
		"aten.triu":            plainTriU,
		"aten.mean":            plainMeanHeads,
		"aten.tril":            plainMask(func(_ *forwardCall, q, k int64) bool { return k <= q }),
		"aten.le":              plainMask(func(_ *forwardCall, q, k int64) bool { return k <= q }),
		"aten.gt":              plainMask(func(c *forwardCall, q, k int64) bool { return k > c.in[0].ints()[q] }),
		"aten.bitwise_and":     plainAnd,
		"aten.where":           plainAdditive,
		"aten.isneginf":        plainIsNegInf,
		"aten.all":             plainAll,
		"aten.scalar_tensor":   func(c *forwardCall) { c.out[0].setReals(make([]float32, 1)) },
	}
}

// forwardPlain runs an op without gradient by its name.
func forwardPlain(c *forwardCall) {
	f, ok := plainKernels[c.name]
	if !ok {
		panic(failure{&exec.UnsupportedError{Engine: "host", Text: "it has no kernel for " + c.name}})
	}
	f(c)
}

func plainInts(f func(c *forwardCall, i int64) int64) func(c *forwardCall) {
	return func(c *forwardCall) {
		out := make([]int64, c.out[0].count())
		for i := range out {
			out[i] = f(c, int64(i))
		}
		c.out[0].setInts(out)
	}
}

// plainAdd adds a constant; with Attr.A it numbers the tokens of each row from 1 first (RoBERTa's positions).
func plainAdd(c *forwardCall) {
	n := c.out[0].shape.At(-1)
	plainInts(func(c *forwardCall, i int64) int64 {
		if c.op.Attr.A == 1 {
			return i%n + 1 + int64(c.op.Scalar)
		}
		return c.in[0].ints()[i] + int64(c.op.Scalar)
	})(c)
}

// plainPadLabels appends a column that the loss ignores.
func plainPadLabels(c *forwardCall) {
	last := int(c.in[0].shape.N) - 1
	n := c.in[0].shape.D[last]
	c.out[0].setInts(filled(c.out[0].count(), ignored))
	c.out[0].narrow(last, 0, n).copyFrom(c.in[0])
}

func filled(n, v int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// plainShiftLabels is labels[..., 1:]: the token that each position predicts.
func plainShiftLabels(c *forwardCall) {
	last := int(c.in[0].shape.N) - 1
	c.out[0].setInts(c.in[0].narrow(last, 1, c.in[0].shape.D[last]-1).ints())
}

// plainOuter is frequencies × positions, [1, D/2, S].
func plainOuter(c *forwardCall) {
	freq, pos := c.in[0].reals(), c.in[1].reals()
	out := make([]float32, 0, len(freq)*len(pos))
	for _, f := range freq {
		for _, p := range pos {
			out = append(out, f*p)
		}
	}
	c.out[0].setReals(out)
}

func plainOnes(c *forwardCall) {
	if c.out[0].buf.bools != nil {
		plainMask(func(*forwardCall, int64, int64) bool { return true })(c)
		return
	}
	c.out[0].setReals(each(make([]float32, c.out[0].count()), func(float32) float32 { return 1 }))
}

// plainCumSum is the running sum of each row.
func plainCumSum(c *forwardCall) {
	n := int(c.out[0].shape.At(-1))
	out := append([]float32(nil), c.in[0].reals()...)
	for i := range out {
		if i%n > 0 {
			out[i] += out[i-1]
		}
	}
	c.out[0].setReals(out)
}

// plainFull and plainTriU make generate_square_subsequent_mask: −∞ everywhere, then 0 up to the diagonal.
func plainFull(c *forwardCall) {
	c.out[0].setReals(each(make([]float32, c.out[0].count()), func(float32) float32 { return float32(math.Inf(-1)) }))
}

func plainTriU(c *forwardCall) {
	n := int(c.out[0].shape.At(-1))
	out := append([]float32(nil), c.in[0].reals()...)
	for i := range out {
		if i%n <= i/n {
			out[i] = 0
		}
	}
	c.out[0].setReals(out)
}

// plainMeanHeads is the mean over heads of weights [B·a, S, S], seen as [B, a, S, S].
func plainMeanHeads(c *forwardCall) {
	x, n := c.in[0].reals(), int(c.out[0].count()/c.out[0].shape.D[0])
	heads := len(x) / n / int(c.out[0].shape.D[0])
	out := make([]float32, c.out[0].count())
	for i, v := range x {
		out[i/(n*heads)*n+i%n] += v / float32(heads)
	}
	c.out[0].setReals(out)
}

// plainTwice is the angles [1, D/2, S] turned to [1, S, D/2] and put side by side with themselves.
func plainTwice(c *forwardCall) {
	half := c.in[0].shape.D[1]
	turned := c.in[0].swapped(1, 2)
	if c.op.Attr.A == 1 { // each angle twice (repeat_interleave)
		var out []float32
		for _, x := range turned.reals() {
			out = append(out, x, x)
		}
		c.out[0].setReals(out)
		return
	}
	c.out[0].narrow(2, 0, half).copyFrom(turned)
	c.out[0].narrow(2, half, half).copyFrom(turned)
}

// plainMask fills a mask whose last two dimensions are query and key.
func plainMask(f func(c *forwardCall, q, k int64) bool) func(c *forwardCall) {
	return func(c *forwardCall) {
		out := make([]bool, c.out[0].count())
		queries, keys := int64(1), int64(1)
		if n := c.out[0].shape.N; n >= 2 {
			queries, keys = c.out[0].shape.At(-2), c.out[0].shape.At(-1)
		}
		for i := range out {
			out[i] = f(c, int64(i)/keys%queries, int64(i)%keys)
		}
		c.out[0].setBools(out)
	}
}

func plainAnd(c *forwardCall) {
	out := make([]bool, c.out[0].count())
	for i := range out {
		out[i] = true
	}
	for _, x := range c.in {
		for i, v := range x.broadcast(c.out[0].shape).bools() {
			out[i] = out[i] && v
		}
	}
	c.out[0].setBools(out)
}

// plainAdditive turns a boolean mask into one to be added to scores: 0, or the type's lowest finite number.
func plainAdditive(c *forwardCall) {
	low := map[model.DType]float64{model.F32: -math.MaxFloat32, model.BF16: -0x1.fep127, model.F16: -65504}[c.out[0].dtype]
	out := make([]float32, c.out[0].count())
	for i, v := range c.in[0].broadcast(c.out[0].shape).bools() {
		if !v {
			out[i] = float32(low)
		}
	}
	c.out[0].setReals(out)
}

func plainIsNegInf(c *forwardCall) {
	x := c.in[0].reals()
	out := make([]bool, len(x))
	for i, v := range x {
		out[i] = math.IsInf(float64(v), -1)
	}
	c.out[0].setBools(out)
}

// plainAll is whether all of a row is true.
func plainAll(c *forwardCall) {
	x := c.in[0].bools()
	n := int(c.in[0].shape.At(-1))
	out := make([]bool, len(x)/n)
	for r := range out {
		out[r] = true
		for _, v := range x[r*n : (r+1)*n] {
			out[r] = out[r] && v
		}
	}
	c.out[0].setBools(out)
}
