package graph

// Row is the op's row of the op table.
func (op *Op) Row() *Row { return &Table[op.Kind] }

// Tensor is what a slot of the op's row refers to; None for an absent input and for gradients and temporaries.
func (g *Graph) Tensor(op *Op, s Slot) TensorID {
	switch {
	case s >= I0 && s <= I3 && int8(s-I0) < op.Nin:
		return g.Args[op.In+int32(s-I0)]
	case s >= O0 && s <= O4 && int8(s-O0) < op.Nout:
		return g.Args[op.Out+int32(s-O0)]
	}
	return None
}

// Saves is true if autograd keeps a tensor of the op.
func (g *Graph) Saves(op *Op) bool {
	any := false
	g.Saved(op, func(TensorID, bool) { any = true })
	return any
}

// Saved calls yield for every tensor that autograd keeps of the op for its backward, in the order it keeps them,
// parameters included. It is empty for an op without a node.
func (g *Graph) Saved(op *Op, yield func(t TensorID, output bool)) {
	if op.Needs == 0 {
		return
	}
	for _, s := range Table[op.Kind].Save {
		if s.If&op.Needs == 0 {
			continue
		}
		if t := g.Tensor(op, s.Slot); t >= 0 {
			yield(t, s.Slot >= O0)
		}
	}
}
