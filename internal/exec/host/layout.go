package host

// cat puts tensors side by side along a dimension.
func cat(c *call) {
	i, at := int(c.Attr.A), int64(0)
	for _, x := range c.in {
		n := x.Shape.D[i]
		c.out[0].narrow(i, at, n).copyFrom(x)
		at += n
	}
}

// stack puts tensors side by side along a new dimension.
func stack(c *call) {
	i := int(c.Attr.A)
	for k, x := range c.in {
		t := c.out[0].narrow(i, int64(k), 1)
		t.Shape, t.Stride = t.Shape.Remove(i), t.Stride.Remove(i)
		t.copyFrom(x)
	}
}

// pad appends zeros to the last dimension.
func pad(c *call) {
	last := int(c.in[0].Shape.N) - 1
	c.out[0].fill(0)
	c.out[0].narrow(last, 0, c.in[0].Shape.D[last]).copyFrom(c.in[0])
}

// sliceBackward, selectBackward and padBackward put the gradient where its elements came from, among zeros.
func sliceBackward(c *call) {
	i, step := int(c.Attr.A), max(1, c.Attr.C)
	c.out[0].fill(0)
	t := c.out[0].narrow(i, c.Attr.B, c.in[0].Shape.D[i])
	t.Stride = t.Stride.With(i, step*t.Stride.D[i])
	t.copyFrom(c.in[0])
}

func selectBackward(c *call) {
	i := int(c.Attr.A)
	c.out[0].fill(0)
	t := c.out[0].narrow(i, c.Attr.B, 1)
	t.Shape, t.Stride = t.Shape.Remove(i), t.Stride.Remove(i)
	t.copyFrom(c.in[0])
}

func padBackward(c *call) {
	last := int(c.out[0].Shape.N) - 1
	c.out[0].copyFrom(c.in[0].narrow(last, 0, c.out[0].Shape.D[last]))
}
