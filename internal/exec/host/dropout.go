package host

import "ckptplan/internal/model"

// forwardDropout keeps x/(1−p) where the mask is set.
func forwardDropout(c *forwardCall) {
	r := c.engine.generator()
	x, p := c.in[0].reals(), c.op.Drop
	mask := r.mask(len(x), p)
	y := make([]float32, len(x))
	keep := float32(1 / (1 - p))
	for i, v := range x {
		if mask[i] {
			y[i] = v * keep
		}
	}
	c.out[0].setReals(y)
	c.out[1].setBools(mask)
}

func backDropout(c *backwardCall) {
	g, mask := c.arg(0), c.node.value(model.O1).bools()
	keep := float32(1 / (1 - c.op.Drop))
	r := make([]float32, len(g))
	for i := range r {
		if mask[i] {
			r[i] = g[i] * keep
		}
	}
	c.out.setReals(r)
}

// draws is how many random numbers the op takes: the generator moves on by them whether or not its kernel runs.
func draws(g *model.Graph, op *model.Op) int64 {
	if op.Drop == 0 {
		return 0
	}
	in := g.Inputs(op)
	q := g.Tensors[in[0]].Shape
	if op.Row().Work == model.Attention {
		return q.D[0] * q.D[1] * q.D[2] * g.Tensors[in[1]].Shape.D[2]
	}
	return q.Count()
}
