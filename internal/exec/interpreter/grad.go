package interpreter

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// gradient is a gradient tensor. References count its holders; its buffer's references count the tensors on it.
type gradient struct {
	tensor
	refs int
	view bool // shares the storage of another tensor
}

func (g *gradient) hold() *gradient { g.refs++; return g }

func (g *gradient) drop() {
	if g.refs--; g.refs == 0 {
		g.buf.release()
	}
}

// viewOf is a new tensor on g's storage.
func (g *gradient) viewOf(shape, stride graph.Dims) *gradient {
	t := g.tensor
	t.Shape, t.Stride = shape, stride
	t.buf.hold()
	return &gradient{tensor: t, refs: 1, view: true}
}

// newGrad allocates a gradient.
func (e *engine) newGrad(name string, dt dtype.DType, shape, stride graph.Dims) *gradient {
	b := e.alloc(name, dt, shape.Count())
	return &gradient{tensor: b.view(shape, stride, 0), refs: 1}
}

// like is the layout that an elementwise kernel gives its result over one operand.
func like(t gpu.Tensor) graph.Dims { return graph.ElementwiseStrides(t.Shape, layout(t)) }

func layout(t gpu.Tensor) *graph.Layout { return &graph.Layout{Shape: t.Shape, Stride: t.Stride} }

// fit sums a gradient to its input's shape and casts it to its type.
func (e *engine) fit(g *gradient, x *graph.Tensor) *gradient {
	if g.Shape != x.Shape {
		s := e.sumTo(g, x.Shape)
		g.drop()
		g = s
	}
	if g.DType != x.DType {
		c := e.newGrad("aten._to_copy", x.DType, g.Shape, like(g.Tensor))
		e.apply(gpu.Copy, c.at(), g.at())
		g.drop()
		g = c
	}
	return g
}

// sumTo is a new reference to the gradient summed to a shape that was broadcast to its own: one sum with the summed
// dimensions kept, then a view without the leading ones.
func (e *engine) sumTo(g *gradient, to graph.Dims) *gradient {
	lead := int(g.Shape.N - to.N)
	kept := g.Shape
	for i := range kept.D[:kept.N] {
		if i < lead || to.D[i-lead] == 1 {
			kept.D[i] = 1
		}
	}
	s := g.hold()
	if lead > 0 || kept != g.Shape { // leading dimensions are summed even if they are 1
		s = e.newGrad("aten.sum", g.DType, kept, kept.Contiguous())
		e.apply(gpu.Sum, s.at(), g.at())
		g.drop()
	}
	if lead == 0 {
		return s
	}
	v := s.viewOf(to, to.Contiguous())
	s.drop()
	return v
}

// deliver adds a gradient to the one that waits for a tensor: in place if that is the only reference to its own storage,
// else into a third tensor. It is true when a leaf has all its gradients.
func (e *engine) deliver(t graph.TensorID, g *gradient) bool {
	switch old := e.pending[t]; {
	case old == nil:
		e.pending[t] = g
	case !old.view && old.refs == 1 && old.buf.refs == 1 && old.DType == g.DType && graph.IsDense(old.Shape, old.Stride):
		e.apply(gpu.Add, old.at(), old.at(), g.at())
		g.drop()
	default:
		s := e.newGrad("aten.add", old.DType, old.Shape, graph.ElementwiseStrides(old.Shape, layout(old.Tensor), layout(g.Tensor)))
		e.apply(gpu.Add, s.at(), old.at(), g.at())
		old.drop()
		g.drop()
		e.pending[t] = s
	}
	if !e.isLeaf(t) {
		return false
	}
	e.uses[t]--
	return e.uses[t] == 0
}

// accumulate is a leaf's AccumulateGrad: the gradient is taken over if it has no other reference and is laid out like
// the leaf, else copied; a gradient that is there already is added to in place.
func (e *engine) accumulate(t graph.TensorID) {
	g, x := e.pending[t], &e.g.Tensors[t]
	e.pending[t] = nil
	if g.refs != 1 || !sameLayout(x.Shape, g.Stride, x.Stride) {
		c := e.newGrad("aten.clone", g.DType, x.Shape, x.Stride)
		e.apply(gpu.Copy, c.at(), g.at())
		g.drop()
		g = c
	}
	switch {
	case x.Param < 0:
		e.leaves = append(e.leaves, g)
	case e.grads[x.Param] != nil:
		old := e.grads[x.Param]
		e.apply(gpu.Add, old.at(), old.at(), g.at())
		g.drop()
	default:
		e.grads[x.Param] = g
	}
}

// sameLayout compares strides where a dimension has more than one element.
func sameLayout(shape, a, b graph.Dims) bool {
	for i := range shape.D[:shape.N] {
		if shape.D[i] > 1 && a.D[i] != b.D[i] {
			return false
		}
	}
	return true
}
