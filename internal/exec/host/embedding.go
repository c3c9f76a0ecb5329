package host

// embedding looks rows up.
func embedding(c *call) {
	table, ids := c.in[0].Reals(), c.in[1].Ints()
	n := int(c.in[0].Shape.At(-1))
	y := make([]float32, 0, len(ids)*n)
	for _, id := range ids {
		y = append(y, table[int(id)*n:(int(id)+1)*n]...)
	}
	c.out[0].SetReals(y)
}

// embeddingBackward adds each row's gradient to the table's row that it was looked up from.
func embeddingBackward(c *call) {
	g, ids := c.in[0].Reals(), c.in[1].Ints()
	n := int(c.out[0].Shape.At(-1))
	out := make([]float32, c.out[0].Count())
	for r, id := range ids {
		row := out[int(id)*n : (int(id)+1)*n]
		for i, v := range g[r*n : (r+1)*n] {
			row[i] += v
		}
	}
	c.out[0].SetReals(out)
}
