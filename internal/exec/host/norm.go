package host

import (
	"math"
)

// layerNorm is (x − mean)·rstd·γ + β over the last dimension, rstd = 1/√(variance + ε).
func layerNorm(c *call) {
	x := c.in[0].Reals()
	n := int(c.in[0].Shape.At(-1))
	y := make([]float32, len(x))
	mean, rstd := make([]float32, len(x)/n), make([]float32, len(x)/n)
	var weight, bias []float32
	if len(c.in) > 1 {
		weight = c.in[1].Reals()
	}
	if len(c.in) > 2 {
		bias = c.in[2].Reals()
	}
	for r := range mean {
		row, out := x[r*n:(r+1)*n], y[r*n:(r+1)*n]
		mu := sum(row) / float64(n)
		v := 0.0
		for _, a := range row {
			v += (float64(a) - mu) * (float64(a) - mu)
		}
		s := 1 / math.Sqrt(v/float64(n)+c.Scalar)
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
	c.out[0].SetReals(y)
	c.out[1].SetReals(mean)
	c.out[2].SetReals(rstd)
}

// rmsNorm is x·rstd·γ over the last dimension, rstd = 1/√(mean(x²) + ε).
func rmsNorm(c *call) {
	x, weight := c.in[0].Reals(), c.in[1].Reals()
	n := len(weight)
	y, rstd := make([]float32, len(x)), make([]float32, len(x)/n)
	for r := range rstd {
		row := x[r*n : (r+1)*n]
		v := 0.0
		for _, a := range row {
			v += float64(a) * float64(a)
		}
		s := 1 / math.Sqrt(v/float64(n)+c.Scalar)
		rstd[r] = float32(s)
		for i, a := range row {
			y[r*n+i] = float32(float64(a) * s * float64(weight[i]))
		}
	}
	c.out[0].SetReals(y)
	c.out[1].SetReals(rstd)
}

// normed is what the gradients of a norm share. The kernel's arguments are grad, x, the mean if the norm is a centred one
// (layer norm), rstd, and for the input's gradient γ.
type normed struct {
	g, x, mean, rstd []float32
	n                int
	gamma            []view
}

func newNormed(c *call, centred bool) *normed {
	d, rest := &normed{g: c.in[0].Reals(), x: c.in[1].Reals(), n: int(c.in[1].Shape.At(-1))}, c.in[2:]
	if centred {
		d.mean, rest = rest[0].Reals(), rest[1:]
	}
	d.rstd, d.gamma = rest[0].Reals(), rest[1:]
	return d
}

// hat is x̂ = (x − mean)·rstd.
func (d *normed) hat(r, i int) float64 {
	x := float64(d.x[r*d.n+i])
	if d.mean != nil {
		x -= float64(d.mean[r])
	}
	return x * float64(d.rstd[r])
}

// normWeight is grad·x̂, summed over rows.
func normWeight(centred bool) func(c *call) {
	return func(c *call) {
		d := newNormed(c, centred)
		c.out[0].SetReals(sumRows(d.g, d.n, func(r, i int, g float64) float64 { return g * d.hat(r, i) }))
	}
}

func layerNormBias(c *call) {
	c.out[0].SetReals(sumRows(c.in[0].Reals(), int(c.out[0].Count()), func(_, _ int, g float64) float64 { return g }))
}

// normInput is, with d = grad·γ, rstd·(d − mean(d) − x̂·mean(d·x̂)), where only a centred norm has the mean of d.
func normInput(centred bool) func(c *call) {
	return func(c *call) {
		d := newNormed(c, centred)
		weight := weights(d.gamma[0], d.n)
		y := c.work.Take(int64(len(d.g)))
		for r := range len(d.g) / d.n {
			m, mh := 0.0, 0.0
			for i := range d.n {
				dy := float64(d.g[r*d.n+i]) * weight(i)
				m += dy
				mh += dy * d.hat(r, i)
			}
			if m, mh = m/float64(d.n), mh/float64(d.n); !centred {
				m = 0
			}
			for i := range d.n {
				y[r*d.n+i] = float32(float64(d.rstd[r]) * (float64(d.g[r*d.n+i])*weight(i) - m - d.hat(r, i)*mh))
			}
		}
		c.out[0].SetReals(y)
	}
}

// weights are a norm's γ, or ones where it has none.
func weights(gamma view, n int) func(i int) float64 {
	if gamma.Ptr == 0 || gamma.Count() != int64(n) {
		return func(int) float64 { return 1 }
	}
	w := gamma.Reals()
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

func mean(c *call) {
	n := int(c.in[0].Shape.At(-1))
	x := c.in[0].Reals()
	r := make([]float32, len(x)/n)
	for i := range r {
		r[i] = float32(sum(x[i*n:(i+1)*n]) / float64(n))
	}
	c.out[0].SetReals(r)
}

func sum(x []float32) float64 {
	s := 0.0
	for _, v := range x {
		s += float64(v)
	}
	return s
}
