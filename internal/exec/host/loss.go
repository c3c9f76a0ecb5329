package host

import (
	"ckptplan/internal/model"
)

// ignored is the class that cross-entropy leaves out (ignore_index).
const ignored = -100

// forwardNLL is the mean of −log p(class), and how many rows counted.
func forwardNLL(c *forwardCall) {
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
func forwardMSE(c *forwardCall) {
	x, y := c.in[0].reals(), c.in[1].reals()
	s := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		s += d * d
	}
	c.out[0].setReals([]float32{float32(s / float64(len(x)))})
}

func backNLL(c *backwardCall) {
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

func backMSE(c *backwardCall) {
	g := c.node.value(model.G0).reals()[0]
	x, y := c.node.value(model.I0).reals(), c.node.value(model.I1).reals()
	out := make([]float32, len(x))
	for i := range out {
		out[i] = g * 2 * (x[i] - y[i]) / float32(len(x))
	}
	c.out.setReals(out)
}
