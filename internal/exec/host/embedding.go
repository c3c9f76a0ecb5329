package host

import "ckptplan/internal/model"

// forwardEmbedding looks rows up.
func forwardEmbedding(c *forwardCall) {
	table, ids := c.in[0].reals(), c.in[1].ints()
	n := int(c.in[0].shape.At(-1))
	y := make([]float32, 0, len(ids)*n)
	for _, id := range ids {
		y = append(y, table[int(id)*n:(int(id)+1)*n]...)
	}
	c.out[0].setReals(y)
}

// backEmbedding adds each row's gradient to the table's row that it was looked up from.
func backEmbedding(c *backwardCall) {
	g, ids := c.node.value(model.G0).reals(), c.node.value(model.I1).ints()
	n := int(c.out.shape.At(-1))
	out := make([]float32, c.out.count())
	for r, id := range ids {
		row := out[int(id)*n : (int(id)+1)*n]
		for i, v := range g[r*n : (r+1)*n] {
			row[i] += v
		}
	}
	c.out.setReals(out)
}
