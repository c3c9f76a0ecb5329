package exec

import (
	"fmt"

	"ckptplan/internal/model"
)

// formula runs the backward steps of the op's row and gives the gradients of its inputs. A step for a temporary runs if
// the next gradient is needed; temporaries go when that gradient is made.
func (n *hostNode) formula() []*hostGrad {
	made := make([]*hostGrad, len(n.engine.g.Inputs(n.op)))
	steps := n.op.Row().Back
	for i := range steps {
		s := &steps[i]
		if s.How == model.Slices || s.How == model.Selects {
			n.parts(s.How, made)
			continue
		}
		if !n.needed(steps[i:]) {
			continue
		}
		if s.How == model.Release {
			n.forget(s.Out.Temp())
			continue
		}
		r := n.step(s)
		if k := s.Out.Temp(); k >= 0 {
			n.forget(k)
			n.temps[k] = r
			continue
		}
		made[s.Out.Input()] = r
		for k := range n.temps {
			n.forget(k)
		}
	}
	for k := range n.temps {
		n.forget(k)
	}
	return made
}

// needed is whether the input that the first of the steps serves requires a gradient.
func (n *hostNode) needed(steps []model.Call) bool {
	for i := range steps {
		if k := steps[i].Out.Input(); k >= 0 {
			return n.op.Needs&(1<<k) != 0
		}
	}
	return true
}

func (n *hostNode) forget(temp int) {
	if g := n.temps[temp]; g != nil {
		n.temps[temp] = nil
		g.drop()
	}
}

// grad is the gradient or temporary that a slot holds, or nil.
func (n *hostNode) grad(s model.Slot) *hostGrad {
	if s == model.G0 {
		return n.engine.pending[n.engine.g.Outputs(n.op)[0]]
	}
	if k := s.Temp(); k >= 0 {
		return n.temps[k]
	}
	return nil
}

// meta is what is known of a slot's tensor without reading it.
func (n *hostNode) meta(s model.Slot) hostTensor {
	if g := n.grad(s); g != nil {
		return g.hostTensor
	}
	t := n.engine.g.Tensor(n.op, s)
	if t < 0 {
		return hostTensor{}
	}
	return x2t(&n.engine.g.Tensors[t], nil)
}

// has is whether the op has a tensor in that slot.
func (n *hostNode) has(s model.Slot) bool { return n.engine.g.Tensor(n.op, s) >= 0 }

// value is a slot's tensor to be read. A forward tensor can be read only if the op's row saves it.
func (n *hostNode) value(s model.Slot) hostTensor {
	if g := n.grad(s); g != nil {
		return g.hostTensor
	}
	t, ok := n.values[s]
	if !ok {
		panic(hostFailure{&UndeclaredReadError{Op: n.op.Row().Aten, Slot: slotName(s)}})
	}
	return t
}

// UndeclaredReadError is returned when the backward kernel of an op reads a tensor that the op's row does not save.
type UndeclaredReadError struct{ Op, Slot string }

func (e *UndeclaredReadError) Error() string {
	return fmt.Sprintf("the backward of %s reads %s, which its row does not save", e.Op, e.Slot)
}

func slotName(s model.Slot) string {
	switch {
	case s >= model.O0 && s <= model.O4:
		return fmt.Sprintf("output %d", s-model.O0)
	case s >= model.I0 && s <= model.I3:
		return fmt.Sprintf("input %d", s-model.I0)
	}
	return fmt.Sprintf("slot %d", s)
}

// kernelStep is true for steps whose values a kernel of hostBackward computes.
func kernelStep(h model.How) bool {
	return h == model.Elementwise || h == model.Full || h == model.Like
}

// step runs one step of the formula and gives a reference to its result.
func (n *hostNode) step(s *model.Call) *hostGrad {
	a := n.grad(s.Args[0])
	switch s.How {
	case model.Pass:
		return a.hold()
	case model.Elementwise, model.Full, model.Like:
		return n.kernel(s)
	case model.Cast:
		to := n.meta(s.Args[1]).dtype
		if a.dtype == to {
			return a.hold()
		}
		c := n.engine.newGrad(s.Aten, to, a.shape, a.like())
		c.copyFrom(a.hostTensor)
		return c
	case model.Reshape:
		to := n.meta(s.Args[1]).shape
		if st, ok := model.ViewStrides(a.shape, a.stride, to); ok {
			return a.viewOf(to, st)
		}
		c := n.engine.newGrad("aten.clone", a.dtype, to, to.Contiguous())
		c.setReals(a.reals())
		return c
	case model.Swap:
		i, j := int(n.op.Attr.A), int(n.op.Attr.B)
		return a.viewOf(a.shape.Swap(i, j), a.stride.Swap(i, j))
	case model.Fold:
		i := int(n.op.Attr.A)
		return a.viewOf(a.shape.Remove(i), a.stride.Remove(i))
	case model.Unfold:
		i := int(n.op.Attr.A)
		return a.viewOf(a.shape.Insert(i, 1), a.stride.Insert(i, 1))
	case model.SumTo:
		return n.engine.sumTo(a, n.meta(s.Args[1]).shape)
	case model.Spread:
		b := a.broadcast(n.meta(s.Args[1]).shape)
		return a.viewOf(b.shape, b.stride)
	case model.MatLeft, model.MatRight:
		return n.product(s, a)
	case model.Joined:
		return n.joined(s)
	}
	hostFail("the host engine has no backward step %d (%s)", s.How, n.op.Row().Aten)
	return nil
}

// kernel allocates a step's result and runs its kernel. Elementwise results are laid out and promoted over all
// arguments; full ones are contiguous, like ones keep the first argument's order of dimensions.
func (n *hostNode) kernel(s *model.Call) *hostGrad {
	first := n.meta(s.Args[0])
	shape, dt := first.shape, first.dtype
	var layouts []*model.Layout
	var second *hostTensor
	for k, sl := range s.Args {
		if sl == model.NoSlot || n.grad(sl) == nil && !n.has(sl) {
			continue
		}
		m := n.meta(sl)
		layouts = append(layouts, m.layout())
		if k == 1 {
			second = &m
		}
		if s.How == model.Elementwise {
			shape = model.Broadcast(shape, m.shape)
			if m.dtype == model.F32 {
				dt = model.F32
			}
		}
	}
	var stride model.Dims
	switch s.How {
	case model.Elementwise:
		stride = model.ElementwiseStrides(shape, layouts...)
	case model.Full:
		stride = shape.Contiguous()
		if second != nil {
			dt = second.dtype
		}
	default:
		stride = first.like()
	}
	r := n.engine.newGrad(s.Aten, dt, shape, stride)
	run, ok := hostBackward[s.Aten]
	if !ok {
		panic(hostFailure{&UnsupportedError{"host", "it has no kernel for " + s.Aten}})
	}
	run(&hostBackCall{node: n, op: n.op, step: s, out: r.hostTensor})
	return r
}

// product is a gradient of a·b: grad·bᵀ or aᵀ·grad. For a 2-D operand stored by columns, the third argument, PyTorch
// computes the transposed product and gives a view of it (mm_mat1_backward, mm_mat2_backward).
func (n *hostNode) product(s *model.Call, g *hostGrad) *hostGrad {
	other := n.value(s.Args[1])
	last := int(g.shape.N) - 1
	turned := other.swapped(last-1, last)
	var shape model.Dims
	var v []float32
	if s.How == model.MatLeft {
		shape = g.shape.With(last, other.shape.At(-2))
		v = matmul(g.hostTensor, turned)
	} else {
		shape = g.shape.With(last-1, other.shape.At(-1))
		v = matmul(turned, g.hostTensor)
	}
	if s.Args[2] != model.NoSlot {
		if m := n.meta(s.Args[2]); m.stride.D[0] == 1 && m.stride.D[1] == m.shape.D[0] {
			sw := shape.Swap(0, 1)
			r := n.engine.newGrad(s.Aten, g.dtype, sw, sw.Contiguous())
			view := r.viewOf(shape, sw.Contiguous().Swap(0, 1))
			r.drop()
			view.setReals(v)
			return view
		}
	}
	r := n.engine.newGrad(s.Aten, g.dtype, shape, shape.Contiguous())
	r.setReals(v)
	return r
}

// parts gives every input of a cat or stack its part of the gradient: views.
func (n *hostNode) parts(how model.How, made []*hostGrad) {
	g, i := n.grad(model.G0), int(n.op.Attr.A)
	at := int64(0)
	for k, t := range n.engine.g.Inputs(n.op) {
		shape, stride, offset := n.engine.g.Tensors[t].Shape, g.stride, g.offset+at*g.stride.D[i]
		if how == model.Selects {
			stride = stride.Remove(i)
			at++
		} else {
			at += shape.D[i]
		}
		if n.op.Needs&(1<<k) != 0 {
			made[k] = g.viewOf(shape, stride)
			made[k].offset = offset
		}
	}
}

// joined puts the gradients of a split's outputs side by side; zeros stand in for those that never came.
func (n *hostNode) joined(s *model.Call) *hostGrad {
	e := n.engine
	in, i := n.meta(s.Args[0]), int(n.op.Attr.A)
	var dt model.DType
	for _, o := range e.g.Outputs(n.op) {
		if g := e.pending[o]; g != nil {
			dt = g.dtype
		}
	}
	var zeros []*hostGrad
	pieces := make([]*hostGrad, 0, 3)
	for _, o := range e.g.Outputs(n.op) {
		g := e.pending[o]
		if g == nil {
			shape := e.g.Tensors[o].Shape
			g = e.newGrad("aten.zeros", dt, shape, shape.Contiguous())
			zeros = append(zeros, g)
		}
		pieces = append(pieces, g)
	}
	r := e.newGrad(s.Aten, dt, in.shape, in.shape.Contiguous())
	at := int64(0)
	for _, p := range pieces {
		r.narrow(i, at, p.shape.D[i]).copyFrom(p.hostTensor)
		at += p.shape.D[i]
	}
	for _, z := range zeros {
		z.drop()
	}
	return r
}
