package host

import (
	"math"

	"ckptplan/internal/model"
)

// forwardLayerNorm is (x − mean)·rstd·γ + β over the last dimension, rstd = 1/√(variance + ε).
func forwardLayerNorm(c *forwardCall) {
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
func forwardRMSNorm(c *forwardCall) {
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

// backLayerNorm makes the gradient of x, γ or β. With x̂ = (x − mean)·rstd and d = grad·γ, that of x is
// rstd·(d − mean(d) − x̂·mean(d·x̂)).
func backLayerNorm(c *backwardCall) {
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
func weights(c *backwardCall, n int) func(i int) float64 {
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
func backRMSNorm(c *backwardCall) {
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

func forwardMean(c *forwardCall) {
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
