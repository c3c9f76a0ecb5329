package interpreter

import "ckptplan/internal/model/graph"

// draws is how many random numbers the op takes: the generator advances by them whether or not its kernel runs.
func draws(g *graph.Graph, op *graph.Op) int64 {
	if op.Drop == 0 {
		return 0
	}
	in := g.Inputs(op)
	q := g.Tensors[in[0]].Shape
	if op.Row().Work == graph.Attention {
		return q.D[0] * q.D[1] * q.D[2] * g.Tensors[in[1]].Shape.D[2]
	}
	return q.Count()
}
