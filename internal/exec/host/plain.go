package host

import (
	"math"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
)

// plainKernels are the ops without gradient, by the name that the profiler shows: positions, masks, rotary tables, shifted
// labels.
var plainKernels = map[gpu.Kernel]func(c *call){
	gpu.Plain("aten.arange"):          plainInts(func(_ *call, i int64) int64 { return i }),
	gpu.Plain("aten.add"):             plainAdd,
	gpu.Plain("aten.sub"):             plainInts(func(c *call, i int64) int64 { return c.in[0].Ints()[i] - int64(c.Scalar) }),
	gpu.Plain("aten.gather"):          plainInts(func(c *call, i int64) int64 { return c.in[0].Ints()[c.in[1].Ints()[i]] }),
	gpu.Plain("aten.constant_pad_nd"): plainPadLabels,
	gpu.Plain("aten.clamp"):           plainInts(func(c *call, i int64) int64 { return c.in[0].Ints()[i] }), // positions lie in the sequence
	gpu.Plain("aten.clone"):           plainShiftLabels,
	gpu.Plain("aten._to_copy"):        func(c *call) { c.out[0].copyFrom(c.in[0]) },
	gpu.Plain("aten.bmm"):             plainOuter,
	gpu.Plain("aten.cat"):             plainTwice,
	gpu.Plain("aten.cos"):             unary(math.Cos),
	gpu.Plain("aten.sin"):             unary(math.Sin),
	gpu.Plain("aten.mul"):             withScalar(func(x, s float32) float32 { return x * s }),
	gpu.Plain("aten.new_ones"):        func(c *call) { c.out[0].fill(1) },
	gpu.Plain("aten.ones"):            func(c *call) { c.out[0].fill(1) },
	gpu.Plain("aten.cumsum"):          plainCumSum,
	gpu.Plain("aten.full"):            func(c *call) { c.out[0].fill(float32(math.Inf(-1))) },
	gpu.Plain("aten.triu"):            plainTriU,
	gpu.Plain("aten.mean"):            plainMeanHeads,
	gpu.Plain("aten.tril"):            plainMask(func(_ *call, q, k int64) bool { return k <= q }),
	gpu.Plain("aten.le"):              plainMask(func(_ *call, q, k int64) bool { return k <= q }),
	gpu.Plain("aten.gt"):              plainMask(func(c *call, q, k int64) bool { return k > c.in[0].Ints()[q] }),
	gpu.Plain("aten.bitwise_and"):     plainAnd,
	gpu.Plain("aten.where"):           plainAdditive,
	gpu.Plain("aten.isneginf"):        plainIsNegInf,
	gpu.Plain("aten.all"):             plainAll,
	gpu.Plain("aten.scalar_tensor"):   func(c *call) { c.out[0].SetReals(make([]float32, 1)) },
}

func plainInts(f func(c *call, i int64) int64) func(c *call) {
	return func(c *call) {
		out := make([]int64, c.out[0].Count())
		for i := range out {
			out[i] = f(c, int64(i))
		}
		c.out[0].SetInts(out)
	}
}

// plainAdd adds a constant; with Attr.A it numbers the tokens of each row from 1 first (RoBERTa's positions).
func plainAdd(c *call) {
	n := c.out[0].Shape.At(-1)
	plainInts(func(c *call, i int64) int64 {
		if c.Attr.A == 1 {
			return i%n + 1 + int64(c.Scalar)
		}
		return c.in[0].Ints()[i] + int64(c.Scalar)
	})(c)
}

// plainPadLabels appends a column that the loss ignores.
func plainPadLabels(c *call) {
	last := int(c.in[0].Shape.N) - 1
	n := c.in[0].Shape.D[last]
	c.out[0].fill(ignored)
	c.out[0].narrow(last, 0, n).copyFrom(c.in[0])
}

// plainShiftLabels is labels[..., 1:]: the token that each position predicts.
func plainShiftLabels(c *call) {
	last := int(c.in[0].Shape.N) - 1
	c.out[0].SetInts(c.in[0].narrow(last, 1, c.in[0].Shape.D[last]-1).Ints())
}

// plainOuter is frequencies × positions, [1, D/2, S].
func plainOuter(c *call) {
	freq, pos := c.in[0].Reals(), c.in[1].Reals()
	out := make([]float32, 0, len(freq)*len(pos))
	for _, f := range freq {
		for _, p := range pos {
			out = append(out, f*p)
		}
	}
	c.out[0].SetReals(out)
}

// plainCumSum is the running sum of each row.
func plainCumSum(c *call) {
	n := int(c.out[0].Shape.At(-1))
	out := append([]float32(nil), c.in[0].Reals()...)
	for i := range out {
		if i%n > 0 {
			out[i] += out[i-1]
		}
	}
	c.out[0].SetReals(out)
}

// plainTriU is 0 up to the diagonal of a mask of −∞: with aten.full it makes generate_square_subsequent_mask.
func plainTriU(c *call) {
	n := int(c.out[0].Shape.At(-1))
	out := append([]float32(nil), c.in[0].Reals()...)
	for i := range out {
		if i%n <= i/n {
			out[i] = 0
		}
	}
	c.out[0].SetReals(out)
}

// plainMeanHeads is the mean over heads of weights [B·a, S, S], seen as [B, a, S, S].
func plainMeanHeads(c *call) {
	x, n := c.in[0].Reals(), int(c.out[0].Count()/c.out[0].Shape.D[0])
	heads := len(x) / n / int(c.out[0].Shape.D[0])
	out := make([]float32, c.out[0].Count())
	for i, v := range x {
		out[i/(n*heads)*n+i%n] += v / float32(heads)
	}
	c.out[0].SetReals(out)
}

// plainTwice is the angles [1, D/2, S] turned to [1, S, D/2] and put side by side with themselves.
func plainTwice(c *call) {
	half := c.in[0].Shape.D[1]
	turned := c.in[0].swapped(1, 2)
	if c.Attr.A == 1 { // each angle twice (repeat_interleave)
		var out []float32
		for _, x := range turned.Reals() {
			out = append(out, x, x)
		}
		c.out[0].SetReals(out)
		return
	}
	c.out[0].narrow(2, 0, half).copyFrom(turned)
	c.out[0].narrow(2, half, half).copyFrom(turned)
}

// plainMask fills a mask whose last two dimensions are query and key.
func plainMask(f func(c *call, q, k int64) bool) func(c *call) {
	return func(c *call) {
		out := make([]bool, c.out[0].Count())
		queries, keys := int64(1), int64(1)
		if n := c.out[0].Shape.N; n >= 2 {
			queries, keys = c.out[0].Shape.At(-2), c.out[0].Shape.At(-1)
		}
		for i := range out {
			out[i] = f(c, int64(i)/keys%queries, int64(i)%keys)
		}
		c.out[0].SetBools(out)
	}
}

func plainAnd(c *call) {
	out := make([]bool, c.out[0].Count())
	for i := range out {
		out[i] = true
	}
	for _, x := range c.in {
		for i, v := range x.broadcast(c.out[0].Shape).Bools() {
			out[i] = out[i] && v
		}
	}
	c.out[0].SetBools(out)
}

// plainAdditive turns a boolean mask into one to be added to scores: 0, or the type's lowest finite number.
func plainAdditive(c *call) {
	low := map[dtype.DType]float64{dtype.F32: -math.MaxFloat32, dtype.BF16: -0x1.fep127, dtype.F16: -65504}[c.out[0].DType]
	out := make([]float32, c.out[0].Count())
	for i, v := range c.in[0].broadcast(c.out[0].Shape).Bools() {
		if !v {
			out[i] = float32(low)
		}
	}
	c.out[0].SetReals(out)
}

func plainIsNegInf(c *call) {
	x := c.in[0].Reals()
	out := make([]bool, len(x))
	for i, v := range x {
		out[i] = math.IsInf(float64(v), -1)
	}
	c.out[0].SetBools(out)
}

// plainAll is whether all of a row is true.
func plainAll(c *call) {
	x := c.in[0].Bools()
	n := int(c.in[0].Shape.At(-1))
	out := make([]bool, len(x)/n)
	for r := range out {
		out[r] = true
		for _, v := range x[r*n : (r+1)*n] {
			out[r] = out[r] && v
		}
	}
	c.out[0].SetBools(out)
}
