package host

import "ckptplan/internal/model"

// patches are the pixels under each output of a convolution whose patches touch and do not overlap, as rows:
// [B·side·side, channels·patch·patch].
func patches(x tensor, w model.Dims) tensor {
	n, ch, p := x.shape.D[0], x.shape.D[1], w.D[2]
	side := x.shape.D[2] / p
	px, size := x.reals(), x.shape.D[2]
	rows, width := n*side*side, ch*p*p
	out := make([]float32, 0, rows*width)
	for b := range n {
		for r := range side {
			for c := range side {
				for k := range ch {
					for i := range p {
						at := ((b*ch+k)*size+r*p+i)*size + c*p
						out = append(out, px[at:at+p]...)
					}
				}
			}
		}
	}
	return scratch(x.buf.engine, out, rows, width)
}

// forwardConv2D is the convolution with one output a patch: w·patch + bias, [B, H, side, side].
func forwardConv2D(c *forwardCall) {
	x, w := c.in[0], c.in[1].shape
	h := w.D[0]
	cols := patches(x, w)
	y := addRow(matmul(cols, c.in[1].asMatrix(h, w.Count()/h).swapped(0, 1)), c.in[2].reals())
	channelsFirst(c.out[0]).setReals(y)
}

// channelsFirst is a [B, C, side, side] tensor seen as [B·side·side rows, C] in the order of patches.
func channelsFirst(t tensor) tensor { return t.swapped(1, 2).swapped(2, 3) }

// backConv2D makes the gradient of the pixels, of the kernel or of the bias.
func backConv2D(c *backwardCall) {
	grad := channelsFirst(c.node.value(model.G0))
	w := c.shape(model.I1)
	h, width := w.D[0], w.Count()/w.D[0]
	rows := grad.count() / h
	g := scratch(c.out.buf.engine, grad.reals(), rows, h)
	switch c.step.Out {
	case model.D2:
		c.out.setReals(sumRows(g.reals(), int(h), func(_, _ int, g float64) float64 { return g }))
	case model.D1:
		c.out.setReals(matmul(g.swapped(0, 1), patches(c.node.value(model.I0), w)))
	default:
		cols := matmul(g, c.node.value(model.I1).asMatrix(h, width))
		unpatch(c.out, w, cols)
	}
}

// unpatch puts rows of patches back to their pixels.
func unpatch(t tensor, w model.Dims, cols []float32) {
	n, ch, p := t.shape.D[0], t.shape.D[1], w.D[2]
	size := t.shape.D[2]
	side := size / p
	out := make([]float32, t.count())
	at := int64(0)
	for b := range n {
		for r := range side {
			for c := range side {
				for k := range ch {
					for i := range p {
						to := ((b*ch+k)*size+r*p+i)*size + c*p
						copy(out[to:to+p], cols[at:at+p])
						at += p
					}
				}
			}
		}
	}
	t.setReals(out)
}
