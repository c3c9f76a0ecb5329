package exec

import (
	"ckptplan/internal/model"
)

// hostNode is an op's node in the autograd graph: what it saved.
type hostNode struct {
	engine *hostEngine
	id     model.OpID
	op     *model.Op
	saved  []hostSaved

	// While its formula runs: saved tensors by slot, those of them that nothing else holds, temporaries.
	values    map[model.Slot]hostTensor
	borrowed  []*hostBuffer
	temps     [4]*hostGrad
	attention *hostAttentionGrads
}

// hostSaved is one saved tensor: held, dropped by a checkpoint, or sent to the host.
type hostSaved struct {
	slot   model.Slot
	tensor model.TensorID
	buf    *hostBuffer
	point  *hostCheckpoint
	host   *hostCopy
}

// hostGrad is a gradient tensor. References count its holders; its buffer's references count the tensors on it.
type hostGrad struct {
	hostTensor
	refs int
	view bool // shares the storage of another tensor
}

func (g *hostGrad) hold() *hostGrad { g.refs++; return g }

func (g *hostGrad) drop() {
	if g.refs--; g.refs == 0 {
		g.buf.release()
	}
}

// viewOf is a new tensor on g's storage.
func (g *hostGrad) viewOf(shape, stride model.Dims) *hostGrad {
	t := g.hostTensor
	t.shape, t.stride = shape, stride
	t.buf.hold()
	return &hostGrad{hostTensor: t, refs: 1, view: true}
}

// newGrad allocates a gradient.
func (e *hostEngine) newGrad(name string, dt model.DType, shape, stride model.Dims) *hostGrad {
	b := e.alloc(name, dt, shape.Count())
	return &hostGrad{hostTensor: hostTensor{buf: b, shape: shape, stride: stride, dtype: dt}, refs: 1}
}

// like is the layout that an elementwise kernel gives its result over one operand.
func (t hostTensor) like() model.Dims { return model.ElementwiseStrides(t.shape, t.layout()) }

func (t hostTensor) layout() model.Layout { return model.Layout{Shape: t.shape, Stride: t.stride} }

// backward runs the nodes that the loss depends on, last op first: each as PyTorch's engine does (the rules are cited
// at memory's tape). What outlives forward in the caller's frame goes after it.
func (e *hostEngine) backward() {
	e.pending = make([]*hostGrad, len(e.g.Tensors))
	e.expect()
	l := &e.g.Tensors[e.g.Loss]
	root := e.newGrad("aten.ones_like", l.DType, l.Shape, l.Shape.Contiguous())
	root.setReals([]float32{1})
	e.deliver(e.g.Loss, root.hold())
	for i := len(e.g.Ops) - 1; i >= 0; i-- {
		if err := e.ctx.Err(); err != nil {
			panic(hostFailure{err})
		}
		e.nodes[i].run()
	}
	root.drop()
	for _, g := range e.leaves {
		g.drop()
	}
	e.leaves = nil
	for _, n := range e.nodes { // nodes that no gradient reached go with the graph
		n.release()
	}
	e.top.leave()
	e.result.afterBackward = e.device.Used()
}

// isLeaf is true for a tensor that requires grad and that no node made.
func (e *hostEngine) isLeaf(t model.TensorID) bool {
	x := &e.g.Tensors[t]
	return x.Param >= 0 || x.Producer < 0 || e.g.Ops[x.Producer].Needs == 0
}

// expect counts how many gradients each leaf will get.
func (e *hostEngine) expect() {
	e.uses = make([]int, len(e.g.Tensors))
	runs := make([]bool, len(e.g.Ops))
	runs[e.g.Tensors[e.g.Loss].Producer] = true
	for i := len(e.g.Ops) - 1; i >= 0; i-- {
		op := &e.g.Ops[i]
		if !runs[i] {
			continue
		}
		for k, t := range e.g.Inputs(op) {
			switch {
			case op.Needs&(1<<k) == 0:
			case e.isLeaf(t):
				e.uses[t]++
			default:
				runs[e.g.Tensors[t].Producer] = true
			}
		}
	}
}

// run is one node: unpack, formula, gradients fitted to the inputs, saved tensors released, gradients handed on.
func (n *hostNode) run() {
	e := n.engine
	outs := e.g.Outputs(n.op)
	arrived := false
	for _, o := range outs {
		arrived = arrived || e.pending[o] != nil
	}
	if n.op.Needs == 0 || !arrived {
		return
	}
	n.unpack()
	made := n.formula()
	for _, b := range n.borrowed {
		b.release()
	}
	n.borrowed, n.values, n.attention = nil, nil, nil
	ins := e.g.Inputs(n.op)
	for k, g := range made {
		if g != nil {
			made[k] = e.fit(g, &e.g.Tensors[ins[k]])
		}
	}
	for _, o := range outs {
		if g := e.pending[o]; g != nil {
			e.pending[o] = nil
			g.drop()
		}
	}
	n.release()
	var complete []model.TensorID
	for k, g := range made {
		if g != nil && e.deliver(ins[k], g) {
			complete = append(complete, ins[k])
		}
	}
	for _, t := range complete {
		e.accumulate(t)
	}
}

// unpack makes the saved tensors readable: a checkpoint's are recomputed, those on the host come back.
func (n *hostNode) unpack() {
	e := n.engine
	n.values = map[model.Slot]hostTensor{}
	for i := range n.saved {
		s := &n.saved[i]
		x := &e.g.Tensors[s.tensor]
		switch {
		case s.point != nil:
			b := s.point.take(packed{n.id, s.slot})
			n.borrowed = append(n.borrowed, b)
			n.values[s.slot] = x2t(x, b)
		case s.host != nil:
			t := e.fromHost(s.host)
			s.host = nil
			n.borrowed = append(n.borrowed, t.buf)
			n.values[s.slot] = t
		default:
			n.values[s.slot] = x2t(x, s.buf)
		}
	}
}

// release lets go of what the node saved.
func (n *hostNode) release() {
	for _, s := range n.saved {
		switch {
		case s.buf != nil:
			s.buf.release()
		case s.point != nil:
			s.point.forget()
		case s.host != nil:
			if err := n.engine.pinned.Free(s.host.ptr); err != nil {
				panic(hostFailure{err})
			}
		}
	}
	n.saved = nil
}

// fit sums a gradient to its input's shape and casts it to its type.
func (e *hostEngine) fit(g *hostGrad, x *model.Tensor) *hostGrad {
	if g.shape != x.Shape {
		s := e.sumTo(g, x.Shape)
		g.drop()
		g = s
	}
	if g.dtype != x.DType {
		c := e.newGrad("aten._to_copy", x.DType, g.shape, g.like())
		c.copyFrom(g.hostTensor)
		g.drop()
		g = c
	}
	return g
}

// sumTo is a new reference to the gradient summed to a shape that was broadcast to its own: one sum with the summed
// dimensions kept, then a view without the leading ones.
func (e *hostEngine) sumTo(g *hostGrad, to model.Dims) *hostGrad {
	lead := int(g.shape.N - to.N)
	kept := g.shape
	for i := range kept.D[:kept.N] {
		if i < lead || to.D[i-lead] == 1 {
			kept.D[i] = 1
		}
	}
	s := g.hold()
	if kept != g.shape {
		s = e.newGrad("aten.sum", g.dtype, kept, kept.Contiguous())
		s.setReals(reduced(g.hostTensor, kept))
		g.drop()
	}
	if lead == 0 {
		return s
	}
	v := s.viewOf(to, to.Contiguous())
	s.drop()
	return v
}

// reduced are the sums of a tensor over the dimensions that are 1 in kept.
func reduced(t hostTensor, kept model.Dims) []float32 {
	total := make([]float64, kept.Count())
	at := hostTensor{shape: kept, stride: kept.Contiguous()}.broadcast(t.shape)
	v := t.reals()
	k := 0
	at.rows(func(pos, step, n int64) {
		for range n {
			total[pos] += float64(v[k])
			pos += step
			k++
		}
	})
	out := make([]float32, len(total))
	for i, x := range total {
		out[i] = float32(x)
	}
	return out
}

// deliver adds a gradient to what waits for a tensor: in place if that is the only reference to a storage of its own,
// else into a third tensor. It is true when a leaf has all its gradients.
func (e *hostEngine) deliver(t model.TensorID, g *hostGrad) bool {
	switch old := e.pending[t]; {
	case old == nil:
		e.pending[t] = g
	case !old.view && old.refs == 1 && old.buf.refs == 1 && old.dtype == g.dtype && model.IsDense(old.shape, old.stride):
		old.setReals(plus(old.reals(), g.reals()))
		g.drop()
	default:
		s := e.newGrad("aten.add", old.dtype, old.shape, model.ElementwiseStrides(old.shape, old.layout(), g.layout()))
		s.setReals(plus(old.reals(), g.reals()))
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

func plus(x, y []float32) []float32 {
	r := make([]float32, len(x))
	for i := range r {
		r[i] = x[i] + y[i]
	}
	return r
}

// accumulate is a leaf's AccumulateGrad: the gradient is taken over where nothing else refers to it and it is laid out
// like the leaf, else copied; a gradient that is there already is added to in place.
func (e *hostEngine) accumulate(t model.TensorID) {
	g, x := e.pending[t], &e.g.Tensors[t]
	e.pending[t] = nil
	if g.refs != 1 || !sameLayout(x.Shape, g.stride, x.Stride) {
		c := e.newGrad("aten.clone", g.dtype, x.Shape, x.Stride)
		c.copyFrom(g.hostTensor)
		g.drop()
		g = c
	}
	switch {
	case x.Param < 0:
		e.leaves = append(e.leaves, g)
	case e.grads[x.Param] != nil:
		old := e.grads[x.Param]
		old.setReals(plus(old.reals(), g.reals()))
		g.drop()
	default:
		e.grads[x.Param] = g
	}
}

// sameLayout compares strides where a dimension has more than one element.
func sameLayout(shape, a, b model.Dims) bool {
	for i := range shape.D[:shape.N] {
		if shape.D[i] > 1 && a.D[i] != b.D[i] {
			return false
		}
	}
	return true
}
