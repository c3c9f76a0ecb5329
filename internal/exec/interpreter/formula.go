package interpreter

import (
	"fmt"

	"ckptplan/internal/exec"
	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// formula runs the backward steps of the op's row and gives the gradients of its inputs. A step for a temporary runs if
// the next gradient is needed; temporaries are freed when that gradient is made.
func (n *node) formula() []*gradient {
	made := make([]*gradient, len(n.engine.g.Inputs(n.op)))
	steps := n.op.Row().Back
	for i := range steps {
		s := &steps[i]
		if s.How == graph.Slices || s.How == graph.Selects {
			n.parts(s.How, made)
			continue
		}
		if !n.needed(steps[i:]) {
			continue
		}
		if s.How == graph.Release {
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
	n.launchJoint()
	return made
}

// needed is whether the input that the first of the steps serves requires a gradient.
func (n *node) needed(steps []graph.Call) bool {
	for i := range steps {
		if k := steps[i].Out.Input(); k >= 0 {
			return n.op.Needs&(1<<k) != 0
		}
	}
	return true
}

func (n *node) forget(temp int) {
	if g := n.temps[temp]; g != nil {
		n.temps[temp] = nil
		g.drop()
	}
}

// grad is the gradient or temporary that a slot holds, or nil.
func (n *node) grad(s graph.Slot) *gradient {
	if s == graph.G0 {
		return n.engine.pending[n.engine.g.Outputs(n.op)[0]]
	}
	if k := s.Temp(); k >= 0 {
		return n.temps[k]
	}
	return nil
}

// meta is a slot's tensor without its values.
func (n *node) meta(s graph.Slot) gpu.Tensor {
	if g := n.grad(s); g != nil {
		return g.Tensor
	}
	t := n.engine.g.Tensor(n.op, s)
	if t < 0 {
		return gpu.Tensor{}
	}
	x := &n.engine.g.Tensors[t]
	return gpu.Tensor{Shape: x.Shape, Stride: x.Stride, Offset: x.Offset, DType: x.DType}
}

func (n *node) shape(s graph.Slot) graph.Dims { return n.meta(s).Shape }

// has is whether the op has a tensor in that slot.
func (n *node) has(s graph.Slot) bool { return n.engine.g.Tensor(n.op, s) >= 0 }

// value is a slot's tensor to be read. A forward tensor can be read only if the op's row saves it.
func (n *node) value(s graph.Slot) tensor {
	if g := n.grad(s); g != nil {
		return g.tensor
	}
	t, ok := n.values[s]
	if !ok {
		panic(failure{&UndeclaredReadError{Op: n.op.Row().Aten, Slot: slotName(s)}})
	}
	return t
}

// UndeclaredReadError is returned when the backward kernel of an op reads a tensor that the op's row does not save.
type UndeclaredReadError struct{ Op, Slot string }

func (e *UndeclaredReadError) Error() string {
	return fmt.Sprintf("the backward of %s reads %s, which its row does not save", e.Op, e.Slot)
}

func slotName(s graph.Slot) string {
	switch {
	case s >= graph.O0 && s <= graph.O4:
		return fmt.Sprintf("output %d", s-graph.O0)
	case s >= graph.I0 && s <= graph.I3:
		return fmt.Sprintf("input %d", s-graph.I0)
	}
	return fmt.Sprintf("slot %d", s)
}

// makesNew reports whether a step has a kernel of its own, which computes a new tensor.
func makesNew(h graph.How) bool {
	return h == graph.Elementwise || h == graph.Full || h == graph.Like
}

// step runs one step of the formula and gives a reference to its result.
func (n *node) step(s *graph.Call) *gradient {
	a := n.grad(s.Args[0])
	switch s.How {
	case graph.Pass:
		return a.hold()
	case graph.Elementwise, graph.Full, graph.Like:
		return n.kernel(s)
	case graph.Cast:
		to := n.meta(s.Args[1]).DType
		if a.DType == to {
			return a.hold()
		}
		c := n.engine.newGrad(s.Aten, to, a.Shape, like(a.Tensor))
		n.engine.apply(gpu.Copy, c.at(), a.at())
		return c
	case graph.Reshape:
		to := n.shape(s.Args[1])
		if st, ok := graph.ViewStrides(a.Shape, a.Stride, to); ok {
			return a.viewOf(to, st)
		}
		c := n.engine.newGrad("aten.clone", a.DType, to, to.Contiguous())
		n.engine.apply(gpu.Copy, c.at(), a.at())
		return c
	case graph.Swap:
		i, j := int(n.op.Attr.A), int(n.op.Attr.B)
		return a.viewOf(a.Shape.Swap(i, j), a.Stride.Swap(i, j))
	case graph.Fold:
		i := int(n.op.Attr.A)
		return a.viewOf(a.Shape.Remove(i), a.Stride.Remove(i))
	case graph.Unfold:
		i := int(n.op.Attr.A)
		return a.viewOf(a.Shape.Insert(i, 1), a.Stride.Insert(i, 1))
	case graph.SumTo:
		return n.engine.sumTo(a, n.shape(s.Args[1]))
	case graph.Spread:
		b := a.Broadcast(n.shape(s.Args[1]))
		return a.viewOf(b.Shape, b.Stride)
	case graph.MatLeft, graph.MatRight:
		return n.product(s, a)
	case graph.Joined:
		return n.joined(s)
	}
	fail("the host engine has no backward step %d (%s)", s.How, n.op.Row().Aten)
	return nil
}

// kernel allocates a step's result and runs its kernel. Elementwise results are laid out and promoted over all
// arguments; full ones are contiguous, like ones keep the first argument's order of dimensions.
func (n *node) kernel(s *graph.Call) *gradient {
	first := n.meta(s.Args[0])
	shape, dt := first.Shape, first.DType
	var layouts []*graph.Layout
	var second *gpu.Tensor
	for k, sl := range s.Args {
		if sl == graph.NoSlot || n.grad(sl) == nil && !n.has(sl) {
			continue
		}
		m := n.meta(sl)
		layouts = append(layouts, layout(m))
		if k == 1 {
			second = &m
		}
		if s.How == graph.Elementwise {
			shape = graph.Broadcast(shape, m.Shape)
			if m.DType == dtype.F32 {
				dt = dtype.F32
			}
		}
	}
	var stride graph.Dims
	switch s.How {
	case graph.Elementwise:
		stride = graph.ElementwiseStrides(shape, layouts...)
	case graph.Full:
		stride = shape.Contiguous()
		if second != nil {
			dt = second.DType
		}
	default:
		stride = like(first)
	}
	r := n.engine.newGrad(s.Aten, dt, shape, stride)
	if _, ok := joint[s.Aten]; ok {
		n.joint[s.Out.Input()] = r
		return r
	}
	n.compute(s, r)
	return r
}

// compute runs the kernel of a step.
func (n *node) compute(s *graph.Call, r *gradient) {
	e := n.engine
	a := &gpu.Args{Out: []gpu.Tensor{r.at()}, Attr: n.op.Attr, Scalar: n.op.Scalar, Drop: n.op.Drop}
	k, ok := backwardKernel(s)
	if !ok {
		panic(failure{&exec.UnsupportedError{Engine: e.name, Text: "it has no kernel for " + s.Aten}})
	}
	reads := s.Args[:]
	if row, ok := elementwise[s.Aten]; !ok {
		reads = backward[s.Aten][s.Out.Input()].reads
	} else if k == row.scalar {
		a.Scalar = row.number(n)
	}
	for _, slot := range reads {
		if slot == graph.NoSlot {
			break
		}
		a.In = append(a.In, n.read(slot))
	}
	e.launch(k, a)
}

// read is a slot's tensor as a kernel's argument, absent if the op has none.
func (n *node) read(s graph.Slot) gpu.Tensor {
	if s == graph.NoSlot || n.grad(s) == nil && !n.has(s) {
		return gpu.Tensor{}
	}
	return n.value(s).at()
}

// launchJoint makes the gradients that one kernel makes together.
func (n *node) launchJoint() {
	a := &gpu.Args{Out: make([]gpu.Tensor, len(n.joint)), Attr: n.op.Attr, Scalar: n.op.Scalar, Drop: n.op.Drop}
	some := false
	for i, g := range n.joint {
		if g != nil {
			a.Out[i], some = g.at(), true
		}
	}
	if !some {
		return
	}
	row := joint[n.op.Row().Back[0].Aten]
	for _, s := range row.reads {
		a.In = append(a.In, n.read(s))
	}
	n.joint = [4]*gradient{}
	n.engine.launch(row.kernel, a)
}

// product is a gradient of a·b: grad·bᵀ or aᵀ·grad. For a 2-D operand stored by columns, the third argument, PyTorch
// computes the transposed product and gives a view of it (mm_mat1_backward, mm_mat2_backward).
func (n *node) product(s *graph.Call, g *gradient) *gradient {
	other := n.value(s.Args[1])
	last := int(g.Shape.N) - 1
	turned := other.at().Swapped(last-1, last)
	var shape graph.Dims
	var a, b gpu.Tensor
	if s.How == graph.MatLeft {
		shape = g.Shape.With(last, other.Shape.At(-2))
		a, b = g.at(), turned
	} else {
		shape = g.Shape.With(last-1, other.Shape.At(-1))
		a, b = turned, g.at()
	}
	if s.Args[2] != graph.NoSlot {
		if m := n.meta(s.Args[2]); m.Stride.D[0] == 1 && m.Stride.D[1] == m.Shape.D[0] {
			sw := shape.Swap(0, 1)
			r := n.engine.newGrad(s.Aten, g.DType, sw, sw.Contiguous())
			view := r.viewOf(shape, sw.Contiguous().Swap(0, 1))
			r.drop()
			n.engine.apply(gpu.MatMul, view.at(), a, b)
			return view
		}
	}
	r := n.engine.newGrad(s.Aten, g.DType, shape, shape.Contiguous())
	n.engine.apply(gpu.MatMul, r.at(), a, b)
	return r
}

// parts gives every input of a cat or stack its part of the gradient: views.
func (n *node) parts(how graph.How, made []*gradient) {
	g, i := n.grad(graph.G0), int(n.op.Attr.A)
	at := int64(0)
	for k, t := range n.engine.g.Inputs(n.op) {
		shape, stride, offset := n.engine.g.Tensors[t].Shape, g.Stride, g.Offset+at*g.Stride.D[i]
		if how == graph.Selects {
			stride = stride.Remove(i)
			at++
		} else {
			at += shape.D[i]
		}
		if n.op.Needs&(1<<k) != 0 {
			made[k] = g.viewOf(shape, stride)
			made[k].Offset = offset
		}
	}
}

// joined puts the gradients of a split's outputs side by side; zeros stand in for those that never came.
func (n *node) joined(s *graph.Call) *gradient {
	e := n.engine
	in, i := n.meta(s.Args[0]), int(n.op.Attr.A)
	var dt dtype.DType
	for _, o := range e.g.Outputs(n.op) {
		if g := e.pending[o]; g != nil {
			dt = g.DType
		}
	}
	var zeros []*gradient
	pieces := make([]*gradient, 0, 3)
	for _, o := range e.g.Outputs(n.op) {
		g := e.pending[o]
		if g == nil {
			shape := e.g.Tensors[o].Shape
			g = e.newGrad("aten.zeros", dt, shape, shape.Contiguous())
			e.fill(g.tensor, 0)
			zeros = append(zeros, g)
		}
		pieces = append(pieces, g)
	}
	r := e.newGrad(s.Aten, dt, in.Shape, in.Shape.Contiguous())
	at := int64(0)
	for _, p := range pieces {
		e.apply(gpu.Copy, r.at().Narrow(i, at, p.Shape.D[i]), p.at())
		at += p.Shape.D[i]
	}
	for _, z := range zeros {
		z.drop()
	}
	return r
}
