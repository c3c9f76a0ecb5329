package host

// dropout keeps x/(1−p) where the mask is set.
func dropout(c *call) {
	r := c.random()
	x, p := c.in[0].Reals(), c.Drop
	mask := r.Mask(len(x), p)
	y := make([]float32, len(x))
	keep := float32(1 / (1 - p))
	for i, v := range x {
		if mask[i] {
			y[i] = v * keep
		}
	}
	c.out[0].SetReals(y)
	c.out[1].SetBools(mask)
}

func dropoutBackward(c *call) {
	g, mask := c.arg(0), c.in[1].Bools()
	keep := float32(1 / (1 - c.Drop))
	r := make([]float32, len(g))
	for i := range r {
		if mask[i] {
			r[i] = g[i] * keep
		}
	}
	c.out[0].SetReals(r)
}
