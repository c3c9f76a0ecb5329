package host

import (
	"math"
)

// gelu is x·Φ(x), or its tanh approximation 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
func gelu(c *call) {
	f := func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
	if c.Attr.A == 1 {
		f = func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluInner(x))) }
	}
	unary(f)(c)
}

func geluInner(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

func geluBackward(c *call) {
	// Φ(x) + x·φ(x)
	f := func(x float64) float64 {
		return 0.5*(1+math.Erf(x/math.Sqrt2)) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	}
	if c.Attr.A == 1 {
		f = func(x float64) float64 {
			t := math.Tanh(geluInner(x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		}
	}
	fromOutput(f)(c)
}
