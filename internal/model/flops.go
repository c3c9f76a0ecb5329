package model

// FLOPs of the op's forward, a multiply-add counted as two; 0 for ops whose time is the bytes they move.
func (g *Graph) FLOPs(op *Op) int64 {
	in, out := g.Inputs(op), g.Outputs(op)
	switch op.Row().Work {
	case MatMul:
		left := in[0]
		switch op.Kind {
		case OpAddMM, OpBAddBMM, OpBMMAdd:
			left = in[1]
		case OpConv2D:
			w := g.Tensors[in[1]].Shape
			return 2 * g.Tensors[out[0]].Shape.Count() * (w.Count() / w.D[0])
		}
		return 2 * g.Tensors[out[0]].Shape.Count() * g.Tensors[left].Shape.At(-1)
	case Attention:
		q, k := g.Tensors[in[0]].Shape, g.Tensors[in[1]].Shape
		n := 4 * q.Count() * k.D[2]
		if op.Kind == OpFlashAttention && op.Attr.B != 0 { // causal: flash skips the half above the diagonal
			n /= 2
		}
		return n
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
