package interpreter

import "ckptplan/internal/model/graph"

// node is an op's node in the autograd graph: what it saved.
type node struct {
	engine *engine
	id     graph.OpID
	op     *graph.Op
	saved  []savedTensor

	// While its formula runs: saved tensors by slot, those that have no other holder, temporaries.
	values   map[graph.Slot]tensor
	borrowed []*buffer
	temps    [5]*gradient
	joint    [4]*gradient // results of a kernel that makes all gradients
}

// savedTensor is one saved tensor: held, dropped by a checkpoint, or sent to the host.
type savedTensor struct {
	slot   graph.Slot
	tensor graph.TensorID
	buf    *buffer
	point  *checkpoint
	host   *hostCopy
}

// backward runs the nodes that the loss depends on, last op first: each as PyTorch's engine does (the rules are cited
// at memory's tape). Locals of the caller's frame that outlive forward are freed after it.
func (e *engine) backward() {
	e.pending = make([]*gradient, len(e.g.Tensors))
	e.expect()
	l := &e.g.Tensors[e.g.Loss]
	root := e.newGrad("aten.ones_like", l.DType, l.Shape, l.Shape.Contiguous())
	e.fill(root.tensor, 1)
	e.deliver(e.g.Loss, root.hold())
	for i := len(e.g.Ops) - 1; i >= 0; i-- {
		e.goOn()
		e.nodes[i].run()
	}
	root.drop()
	for _, g := range e.leaves {
		g.drop()
	}
	e.leaves = nil
	for _, n := range e.nodes { // nodes that no gradient reached are freed with the graph
		n.release()
	}
	e.top.leave()
	e.result.afterBackward = e.used
}

// isLeaf is true for a tensor that requires grad and was not made by a node.
func (e *engine) isLeaf(t graph.TensorID) bool {
	x := &e.g.Tensors[t]
	return x.Param >= 0 || x.Producer < 0 || e.g.Ops[x.Producer].Needs == 0
}

// expect counts the gradients that each leaf will get.
func (e *engine) expect() {
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
func (n *node) run() {
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
	n.borrowed, n.values = nil, nil
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
	var complete []graph.TensorID
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
func (n *node) unpack() {
	e := n.engine
	n.values = map[graph.Slot]tensor{}
	for i := range n.saved {
		s := &n.saved[i]
		x := &e.g.Tensors[s.tensor]
		switch {
		case s.point != nil:
			b := s.point.take(packed{n.id, s.slot})
			n.borrowed = append(n.borrowed, b)
			n.values[s.slot] = over(x, b)
		case s.host != nil:
			t := e.fromHost(s.host)
			s.host = nil
			n.borrowed = append(n.borrowed, t.buf)
			n.values[s.slot] = t
		default:
			n.values[s.slot] = over(x, s.buf)
		}
	}
}

// release drops the tensors that the node saved.
func (n *node) release() {
	for _, s := range n.saved {
		switch {
		case s.buf != nil:
			s.buf.release()
		case s.point != nil:
			s.point.forget()
		case s.host != nil:
			n.engine.forgetCopy(s.host)
		}
	}
	n.saved = nil
}
