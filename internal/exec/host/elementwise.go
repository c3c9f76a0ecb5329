package host

import "math"

func elementwise(f func(x, y float32) float32) func(c *call) {
	return func(c *call) {
		to := c.out[0].Shape
		x, y := c.in[0].broadcast(to).Reals(), c.in[1].broadcast(to).Reals()
		r := c.work.Take(to.Count())
		for i := range r {
			r[i] = f(x[i], y[i])
		}
		c.out[0].SetReals(r)
	}
}

func withScalar(f func(x, s float32) float32) func(c *call) {
	return func(c *call) {
		s := float32(c.Scalar)
		r := c.work.Take(c.in[0].Count())
		for i, x := range c.in[0].Reals() {
			r[i] = f(x, s)
		}
		c.out[0].SetReals(r)
	}
}

func unary(f func(x float64) float64) func(c *call) {
	return func(c *call) {
		r := c.work.Take(c.in[0].Count())
		for i, x := range c.in[0].Reals() {
			r[i] = float32(f(float64(x)))
		}
		c.out[0].SetReals(r)
	}
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

// arg is argument k broadcast to the result's shape.
func (c *call) arg(k int) []float32 { return c.in[k].broadcast(c.out[0].Shape).Reals() }

// fromOutput is grad · f(second argument).
func fromOutput(f func(y float64) float64) func(c *call) {
	return func(c *call) {
		g, y := c.arg(0), c.arg(1)
		r := c.work.Take(int64(len(g)))
		for i := range r {
			r[i] = float32(float64(g[i]) * f(float64(y[i])))
		}
		c.out[0].SetReals(r)
	}
}

func step(y float64) float64 {
	if y > 0 {
		return 1
	}
	return 0
}
