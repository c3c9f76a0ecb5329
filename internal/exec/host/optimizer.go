package host

import (
	"math"

	"ckptplan/internal/gpu"
)

// sgd is p ← p − lr·grad.
func sgd(c *call) {
	p, grad := c.out[0], c.in[0].Reals()
	r := make([]float32, len(grad))
	for k, v := range p.Reals() {
		r[k] = v - gpu.LearningRate*grad[k]
	}
	p.SetReals(r)
}

// adamW is one parameter's step:
//
//	p ← p·(1 − lr·λ);  m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²
//	p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)
//
// Source: torch/optim/adamw.py, adam.py.
func adamW(c *call) {
	p, step := c.out[0], c.out[3]
	t := step.Reals()[0] + 1
	step.SetReals([]float32{t})
	rate, root := gpu.LearningRate/(1-math.Pow(gpu.Beta1, float64(t))), math.Sqrt(1-math.Pow(gpu.Beta2, float64(t)))
	values, m, v, dt := p.Reals(), c.out[1].Reals(), c.out[2].Reals(), p.DType
	for k, x := range c.in[0].Reals() { // each element is read before it is written: the slices may be the memory itself
		grad := float64(x)
		m[k] = gpu.Round(dt, float32(gpu.Beta1*float64(m[k])+(1-gpu.Beta1)*grad))
		v[k] = gpu.Round(dt, float32(gpu.Beta2*float64(v[k])+(1-gpu.Beta2)*grad*grad))
		values[k] = float32(float64(values[k])*(1-gpu.LearningRate*gpu.WeightDecay) - rate*float64(m[k])/(math.Sqrt(float64(v[k]))/root+gpu.Epsilon))
	}
	p.SetReals(values)
	c.out[1].SetReals(m)
	c.out[2].SetReals(v)
}
