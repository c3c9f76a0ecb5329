package graph

// FLOPs of the op's forward, a multiply-add counted as two; 0 for ops whose time is the bytes they move.
func (g *Graph) FLOPs(op *Op) int64 {
	if f := op.Row().FLOPs; f != nil {
		return f(g, op)
	}
	return 0
}

// Moved is the bytes of the op's forward that cross the memory bus: inputs read, outputs written.
func (g *Graph) Moved(op *Op) int64 {
	var n int64
	w := op.Row().Work
	if w == Free {
		return 0
	}
	for i, t := range g.Inputs(op) {
		if w == Gather && i == 0 {
			continue
		}
		n += g.Bytes(t)
	}
	for i, t := range g.Outputs(op) {
		n += g.Bytes(t)
		if w == Gather && i == 0 {
			n += g.Bytes(t)
		}
	}
	return n
}
