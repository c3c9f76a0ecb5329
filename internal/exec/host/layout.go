package host

import "ckptplan/internal/model"

// forwardCat puts tensors side by side along a dimension.
func forwardCat(c *forwardCall) {
	i, at := int(c.op.Attr.A), int64(0)
	for _, x := range c.in {
		n := x.shape.D[i]
		c.out[0].narrow(i, at, n).copyFrom(x)
		at += n
	}
}

// forwardStack puts tensors side by side along a new dimension.
func forwardStack(c *forwardCall) {
	i := int(c.op.Attr.A)
	for k, x := range c.in {
		t := c.out[0].narrow(i, int64(k), 1)
		t.shape, t.stride = t.shape.Remove(i), t.stride.Remove(i)
		t.copyFrom(x)
	}
}

// forwardPad appends zeros to the last dimension.
func forwardPad(c *forwardCall) {
	last := int(c.in[0].shape.N) - 1
	c.out[0].narrow(last, 0, c.in[0].shape.D[last]).copyFrom(c.in[0])
}

// backSlice, backSelect and backPad put the gradient where its elements came from, among zeros.
func backSlice(c *backwardCall) {
	i, step := int(c.op.Attr.A), max(1, c.op.Attr.C)
	t := c.out.narrow(i, c.op.Attr.B, c.shape(model.G0).D[i])
	t.stride = t.stride.With(i, step*t.stride.D[i])
	t.copyFrom(c.node.value(model.G0))
}

func backSelect(c *backwardCall) {
	i := int(c.op.Attr.A)
	t := c.out.narrow(i, c.op.Attr.B, 1)
	t.shape, t.stride = t.shape.Remove(i), t.stride.Remove(i)
	t.copyFrom(c.node.value(model.G0))
}

func backPad(c *backwardCall) {
	last := int(c.out.shape.N) - 1
	c.out.copyFrom(c.node.value(model.G0).narrow(last, 0, c.out.shape.D[last]))
}
