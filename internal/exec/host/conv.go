package host

import "ckptplan/internal/model/graph"

// patches are the pixels under each output of a convolution whose patches touch and do not overlap, as rows:
// [B·side·side, channels·patch·patch].
func patches(x view, w graph.Dims) view {
	n, ch, p := x.Shape.D[0], x.Shape.D[1], w.D[2]
	side := x.Shape.D[2] / p
	px, size := x.Reals(), x.Shape.D[2]
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
	return scratch(out, rows, width)
}

// conv2D is the convolution with one output a patch: w·patch + bias, [B, H, side, side].
func conv2D(c *call) {
	x, w := c.in[0], c.in[1].Shape
	h := w.D[0]
	cols := patches(x, w)
	y := addRow(matmul(cols, c.in[1].asMatrix(h, w.Count()/h).swapped(0, 1)), c.in[2].Reals())
	channelsFirst(c.out[0]).SetReals(y)
}

// channelsFirst is a [B, C, side, side] tensor seen as [B·side·side rows, C] in the order of patches.
func channelsFirst(t view) view { return t.swapped(1, 2).swapped(2, 3) }

// flat is the gradient of a convolution's output as a matrix [B·side·side, H].
func flat(grad view, h int64) view {
	return scratch(channelsFirst(grad).Reals(), grad.Count()/h, h)
}

func conv2DBias(c *call) {
	h := c.out[0].Count()
	c.out[0].SetReals(sumRows(flat(c.in[0], h).Reals(), int(h), func(_, _ int, g float64) float64 { return g }))
}

func conv2DWeight(c *call) {
	w := c.out[0].Shape
	c.out[0].SetReals(matmul(flat(c.in[0], w.D[0]).swapped(0, 1), patches(c.in[1], w)))
}

func conv2DInput(c *call) {
	w := c.in[1].Shape
	h := w.D[0]
	unpatch(c.out[0], w, matmul(flat(c.in[0], h), c.in[1].asMatrix(h, w.Count()/h)))
}

// unpatch puts rows of patches back to their pixels.
func unpatch(t view, w graph.Dims, cols []float32) {
	n, ch, p := t.Shape.D[0], t.Shape.D[1], w.D[2]
	size := t.Shape.D[2]
	side := size / p
	out := make([]float32, t.Count())
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
	t.SetReals(out)
}
