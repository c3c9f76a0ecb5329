package memory

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// apply runs the op row's backward steps; c.made[k] is the gradient of input k, for the inputs in c.got.
func (c *compiler) apply(op *graph.Op) {
	steps := op.Row().Back
	for i := range steps {
		s := &steps[i]
		if s.How == graph.Slices || s.How == graph.Selects {
			c.slices(op, s.How)
			continue
		}
		for j := i; j < len(steps); j++ { // temporaries serve the next gradient
			if k := steps[j].Out.Input(); k >= 0 {
				if op.Needs&(1<<k) == 0 {
					s = nil
				}
				break
			}
		}
		if s == nil {
			if k := steps[i].Out.Input(); k >= 0 && op.Row().Together&(1<<k) != 0 {
				c.unused = append(c.unused, c.step(op, &steps[i]))
			}
			continue
		}
		if s.How == graph.Release {
			c.dropTemp(s.Out.Temp())
			continue
		}
		r := c.step(op, s)
		if k := s.Out.Temp(); k >= 0 {
			c.dropTemp(k)
			c.temps[k] = r
			continue
		}
		k := s.Out.Input()
		c.made[k] = r
		c.got |= 1 << k
		for k := range c.temps {
			c.dropTemp(k)
		}
	}
}

func (c *compiler) dropTemp(k int) {
	if g := c.temps[k]; g != nil {
		c.temps[k] = nil
		c.drop(g)
	}
}

// arg is what a slot holds now: a gradient, a temporary, or a forward tensor seen as one (without a storage), which is
// written to room; nil if the op has no such input.
func (c *compiler) arg(op *graph.Op, s graph.Slot, room *grad) *grad {
	if s == graph.G0 {
		return c.pending[c.g.Outputs(op)[0]]
	}
	if k := s.Temp(); k >= 0 {
		return c.temps[k]
	}
	t := c.g.Tensor(op, s)
	if t < 0 {
		return nil
	}
	x := &c.g.Tensors[t]
	room.Layout, room.dtype = x.Layout, x.DType
	return room
}

func (c *compiler) step(op *graph.Op, s *graph.Call) *grad {
	args := &c.args
	n := 0
	w := work{}
	for _, sl := range s.Args {
		if sl == graph.NoSlot {
			break
		}
		if x := c.arg(op, sl, &c.forward[n]); x != nil {
			args[n] = x
			w.bytes += x.bytes()
			n++
		}
	}
	a := args[0]
	switch s.How {
	case graph.Pass:
		c.hold(a)
		return a
	case graph.Scalar:
		return c.fresh(s.Aten, graph.Dims{}, graph.Dims{}, a.dtype, w)
	case graph.Compare:
		return c.fresh(s.Aten, a.Shape, graph.ElementwiseStrides(a.Shape, a.Layout), dtype.Bool, w)
	case graph.Elementwise:
		shape, dt := a.Shape, a.dtype
		var ls [3]*graph.Layout
		for i, x := range args[:n] {
			shape = graph.Broadcast(shape, x.Shape)
			if x.dtype == dtype.F32 {
				dt = dtype.F32
			}
			ls[i] = x.Layout
		}
		return c.fresh(s.Aten, shape, graph.ElementwiseStrides(shape, ls[:n]...), dt, w)
	case graph.Full:
		dt := a.dtype
		if n > 1 {
			dt = args[1].dtype
		}
		if r := op.Row().Work; r == graph.MatMul {
			w.flops, w.mat = c.g.FLOPs(op), true
		}
		return c.fresh(s.Aten, a.Shape, a.Shape.Contiguous(), dt, w)
	case graph.Like:
		switch r := op.Row().Work; {
		case r == graph.MatMul:
			w.flops, w.mat = c.g.FLOPs(op), true
		case r == graph.Attention && s.Out == graph.D0:
			w.flops, w.mat = c.g.FLOPs(op)*5/2, true
		}
		return c.fresh(s.Aten, a.Shape, graph.ElementwiseStrides(a.Shape, a.Layout), a.dtype, w)
	case graph.Cast:
		if a.dtype == args[1].dtype {
			c.hold(a)
			return a
		}
		return c.fresh(s.Aten, a.Shape, graph.ElementwiseStrides(a.Shape, a.Layout), args[1].dtype, w)
	case graph.Reshape:
		to := args[1].Shape
		if st, ok := graph.ViewStrides(a.Shape, a.Stride, to); ok {
			return c.viewOf(a, to, st)
		}
		return c.fresh("aten.clone", to, to.Contiguous(), a.dtype, w)
	case graph.Swap:
		i, j := int(op.Attr.A), int(op.Attr.B)
		return c.viewOf(a, a.Shape.Swap(i, j), a.Stride.Swap(i, j))
	case graph.Fold:
		i := int(op.Attr.A)
		return c.viewOf(a, a.Shape.Remove(i), a.Stride.Remove(i))
	case graph.Unfold:
		i := int(op.Attr.A)
		return c.viewOf(a, a.Shape.Insert(i, 1), a.Stride.Insert(i, 1))
	case graph.SumTo:
		c.hold(a)
		if a.Shape == args[1].Shape {
			return a
		}
		return c.sumTo(a, args[1].Shape)
	case graph.Spread:
		to := args[1].Shape
		st := a.Stride
		for i := range to.D[:to.N] {
			if a.Shape.D[i] != to.D[i] {
				st.D[i] = 0
			}
		}
		return c.viewOf(a, to, st)
	case graph.MatLeft, graph.MatRight:
		return c.product(op, s, args[:n], w)
	case graph.Joined:
		return c.joined(op, a, s.Aten)
	}
	panic("memory: backward step of " + op.Row().Aten)
}

// viewOf is a new tensor on g's storage.
func (c *compiler) viewOf(g *grad, shape, stride graph.Dims) *grad {
	return c.tensor(grad{Layout: c.layouts.Of(shape, stride), stor: g.stor, dtype: g.dtype, view: true})
}

// product is a gradient of a matrix product. For 2-D operands stored column by column PyTorch computes the transposed
// product and returns a view of it (mm_mat1_backward, mm_mat2_backward in FunctionsManual.cpp); the operand whose
// gradient it is comes third.
func (c *compiler) product(op *graph.Op, s *graph.Call, args []*grad, w work) *grad {
	g, other := args[0], args[1]
	w.flops, w.mat = c.g.FLOPs(op), true
	n := int(g.Shape.N)
	shape := g.Shape
	if s.How == graph.MatLeft { // grad [M, N] · otherᵀ [N, K]
		shape = shape.With(n-1, other.Shape.At(-2))
	} else { // otherᵀ [K, M] · grad [M, N]
		shape = shape.With(n-2, other.Shape.At(-1))
	}
	if len(args) > 2 {
		st, sz := args[2].Stride, args[2].Shape
		w.bytes -= args[2].bytes()
		if st.D[0] == 1 && st.D[1] == sz.D[0] {
			sw := shape.Swap(0, 1)
			r := c.fresh(s.Aten, sw, sw.Contiguous(), g.dtype, w)
			v := c.viewOf(r, shape, sw.Contiguous().Swap(0, 1))
			c.drop(r)
			return v
		}
	}
	return c.fresh(s.Aten, shape, shape.Contiguous(), g.dtype, w)
}

// slices gives every input of a cat or stack its part of the gradient: views.
func (c *compiler) slices(op *graph.Op, how graph.How) {
	g := c.pending[c.g.Outputs(op)[0]]
	stride := g.Stride
	if how == graph.Selects {
		stride = stride.Remove(int(op.Attr.A))
	}
	for k, t := range c.g.Inputs(op) {
		if op.Needs&(1<<k) != 0 {
			c.made[k] = c.viewOf(g, c.g.Tensors[t].Shape, stride)
			c.got |= 1 << k
		}
	}
}

// joined puts the gradients of a split's outputs side by side; zeros stand in for those that never came.
func (c *compiler) joined(op *graph.Op, in *grad, aten string) *grad {
	var zeros []*grad
	var dt dtype.DType
	w := work{}
	for _, o := range c.g.Outputs(op) {
		if g := c.pending[o]; g != nil {
			dt = g.dtype
			w.bytes += g.bytes()
		}
	}
	for _, o := range c.g.Outputs(op) {
		if c.pending[o] == nil {
			s := c.g.Tensors[o].Shape
			zeros = append(zeros, c.fresh("aten.zeros", s, s.Contiguous(), dt, work{}))
		}
	}
	r := c.fresh(aten, in.Shape, in.Shape.Contiguous(), dt, w)
	for _, z := range zeros {
		c.drop(z)
	}
	return r
}
