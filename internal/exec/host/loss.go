package host

// ignored is the class that cross-entropy leaves out (ignore_index).
const ignored = -100

// nllLoss is the mean of −log p(class), and how many rows counted.
func nllLoss(c *call) {
	lp, target := c.in[0].Reals(), c.in[1].Ints()
	n := int(c.in[0].Shape.At(-1))
	s, counted := 0.0, 0
	for r, t := range target {
		if t == ignored {
			continue
		}
		s -= float64(lp[r*n+int(t)])
		counted++
	}
	c.out[0].SetReals([]float32{float32(s / float64(counted))})
	c.out[1].SetReals([]float32{float32(counted)})
}

// mseLoss is mean((x − y)²).
func mseLoss(c *call) {
	x, y := c.in[0].Reals(), c.in[1].Reals()
	s := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		s += d * d
	}
	c.out[0].SetReals([]float32{float32(s / float64(len(x)))})
}

func nllLossBackward(c *call) {
	g := c.in[0].Reals()[0]
	target, counted := c.in[1].Ints(), c.in[2].Reals()[0]
	n := int(c.out[0].Shape.At(-1))
	out := make([]float32, c.out[0].Count())
	for r, t := range target {
		if t != ignored {
			out[r*n+int(t)] = -g / counted
		}
	}
	c.out[0].SetReals(out)
}

func mseLossBackward(c *call) {
	g := c.in[0].Reals()[0]
	x, y := c.in[1].Reals(), c.in[2].Reals()
	out := make([]float32, len(x))
	for i := range out {
		out[i] = g * 2 * (x[i] - y[i]) / float32(len(x))
	}
	c.out[0].SetReals(out)
}
