package memory

import (
	"ckptplan/internal/hugepage"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// tape is the backward pass of a graph: what PyTorch's autograd engine allocates and frees, in order. It depends only on
// the graph, not on the plan: checkpointing changes which saved tensors must be recomputed, not which gradients are made.
//
// Engine rules (torch/csrc/autograd/engine.cpp, input_buffer.cpp, functions/accumulate_grad.h):
//   - Nodes run in decreasing sequence number; AccumulateGrad nodes run as soon as their last gradient is there.
//   - A node's incoming gradients live until it returns, its saved tensors until it is released after that.
//   - Gradients are summed to the input's shape and cast to its dtype before the node is left (validate_outputs).
//   - A second gradient for the same tensor is added in place if the first is the last reference to storage that it
//     owns, else into a third tensor.
//   - A parameter's first gradient is taken over without a copy if nothing else refers to it and its strides fit.
type tape struct {
	events  []event
	grads   []gradient
	leaves  []accumulation
	left    []int32 // gradients of leaves that are not parameters: freed when backward is done
	kernels kernels // of backward
}

type eventKind uint8

const (
	evNode       eventKind = iota // op's node starts: its saved tensors are unpacked; like the next two, of ops that save something
	evAlloc                       // gradient storage x comes to life
	evFree                        // gradient storage x dies
	evApplied                     // op's formula is done: recomputed tensors are freed
	evReleased                    // op's node is released: saved tensors are freed
	evAccumulate                  // accumulation x
)

type event struct {
	op   graph.OpID
	x    int32 // gradient storage, or index into leaves
	kind eventKind
}

// accumulation says that a gradient storage becomes, or is added to, the gradient of a parameter.
type accumulation struct {
	grad  int32
	param graph.ParamID
}

// gradient is one storage that backward allocates.
type gradient struct {
	bytes  int64
	aten   string
	op     graph.OpID
	kernel int32 // that writes it
}

// grad is one gradient tensor during compilation.
type grad struct {
	*graph.Layout
	refs  int32 // references to the tensor
	stor  int32 // its gradient storage
	dtype dtype.DType
	view  bool // shares the storage of another tensor, which it keeps alive
}

type compiler struct {
	g       *graph.Graph
	t       *tape
	pending []*grad // by tensor: what waits in the input buffer, or nil
	uses    []int32 // by tensor: edges into a leaf that have not delivered
	stors   []int32 // live tensors on each gradient storage
	op      graph.OpID
	out     *graph.Op
	temps   [5]*grad
	unused  []*grad // gradients that the node's kernel makes and nothing takes
	ready   []graph.TensorID
	made    [8]*grad // by input of the op: its gradient, where got has a bit
	got     uint16
	args    [3]*grad // of the step
	forward [3]grad  // forward tensors among the arguments
	left    []*grad  // of leaves that are not parameters
	idle    []*grad  // tensors without a reference, to be used again
	layouts graph.Layouts
}

// compile derives the tape of a graph.
func compile(g *graph.Graph) *tape {
	c := &compiler{
		g: g, t: &tape{events: hugepage.Make[event](6 * len(g.Ops)), grads: hugepage.Make[gradient](2 * len(g.Ops)), kernels: newKernels()},
		pending: make([]*grad, len(g.Tensors)), uses: make([]int32, len(g.Tensors)),
	}
	c.countLeafUses()
	l := g.Tensors[g.Loss]
	c.op = l.Producer
	root := c.fresh("aten.ones_like", l.Shape, l.Shape.Contiguous(), l.DType, work{})
	c.hold(root) // the caller's own reference
	c.deliver(g.Loss, root)
	for i := len(g.Ops) - 1; i >= 0; i-- {
		c.node(graph.OpID(i))
	}
	c.drop(root)
	for _, g := range c.left {
		c.t.left = append(c.t.left, g.stor)
	}
	return c.t
}

// countLeafUses counts, for every leaf, the gradients that reachable nodes will deliver.
func (c *compiler) countLeafUses() {
	g := c.g
	reach := make([]bool, len(g.Ops))
	reach[g.Tensors[g.Loss].Producer] = true
	for i := len(g.Ops) - 1; i >= 0; i-- {
		op := &g.Ops[i]
		if !reach[i] || op.Needs == 0 {
			continue
		}
		for k, t := range g.Inputs(op) {
			if op.Needs&(1<<k) == 0 {
				continue
			}
			if c.leaf(t) {
				c.uses[t]++
			} else {
				reach[g.Tensors[t].Producer] = true
			}
		}
	}
}

// leaf is true for a tensor that requires grad and was not made by a node.
func (c *compiler) leaf(t graph.TensorID) bool {
	x := &c.g.Tensors[t]
	return x.Param >= 0 || x.Producer < 0 || c.g.Ops[x.Producer].Needs == 0
}

func (c *compiler) event(e event) { c.t.events = append(c.t.events, e) }

// fresh allocates a gradient tensor with one reference.
func (c *compiler) fresh(aten string, shape, stride graph.Dims, dt dtype.DType, w work) *grad {
	x := int32(len(c.t.grads))
	bytes := shape.Count() * dt.Size()
	w.bytes += bytes
	w.dtype = dt
	c.t.grads = append(c.t.grads, gradient{bytes: bytes, aten: aten, op: c.op, kernel: c.t.kernels.of(w)})
	c.stors = append(c.stors, 0)
	c.event(event{kind: evAlloc, op: c.op, x: x})
	return c.tensor(grad{Layout: c.layouts.Of(shape, stride), stor: x, dtype: dt})
}

// tensor makes a gradient tensor with one reference.
func (c *compiler) tensor(x grad) *grad {
	var g *grad
	if n := len(c.idle); n > 0 {
		g, c.idle = c.idle[n-1], c.idle[:n-1]
	} else {
		g = new(grad)
	}
	*g = x
	g.refs = 1
	c.stors[g.stor]++
	return g
}

func (c *compiler) hold(g *grad) { g.refs++ }

// drop gives up a reference; the caller must not use g afterwards.
func (c *compiler) drop(g *grad) {
	if g.refs--; g.refs > 0 {
		return
	}
	c.idle = append(c.idle, g)
	if c.stors[g.stor]--; c.stors[g.stor] == 0 {
		c.event(event{kind: evFree, op: c.op, x: g.stor})
	}
}

func (g *grad) bytes() int64 { return g.Shape.Count() * g.dtype.Size() }

// node runs the backward of one op, if any gradient has arrived for it.
func (c *compiler) node(id graph.OpID) {
	op := &c.g.Ops[id]
	if op.Needs == 0 {
		return
	}
	outs := c.g.Outputs(op)
	any := false
	for _, o := range outs {
		any = any || c.pending[o] != nil
	}
	if !any {
		return
	}
	c.op, c.out = id, op
	saves := c.g.Saves(op)
	if saves {
		c.event(event{kind: evNode, op: id})
	}
	ins := c.g.Inputs(op)
	c.got = 0
	c.apply(op)
	for k := range c.temps {
		c.dropTemp(k)
	}
	for _, g := range c.unused {
		c.drop(g)
	}
	c.unused = c.unused[:0]
	if saves {
		c.event(event{kind: evApplied, op: id})
	}
	for k, t := range ins {
		if c.got&(1<<k) != 0 {
			c.made[k] = c.fit(c.made[k], &c.g.Tensors[t])
		}
	}
	for _, o := range outs {
		if g := c.pending[o]; g != nil {
			c.pending[o] = nil
			c.drop(g)
		}
	}
	if saves {
		c.event(event{kind: evReleased, op: id})
	}
	for k, t := range ins {
		if c.got&(1<<k) != 0 {
			c.deliver(t, c.made[k])
		}
	}
	for _, t := range c.ready {
		c.accumulate(t)
	}
	c.ready = c.ready[:0]
}

// fit sums a gradient to its input's shape and casts it to its dtype.
func (c *compiler) fit(g *grad, x *graph.Tensor) *grad {
	if g.Shape != x.Shape {
		g = c.sumTo(g, x.Shape)
	}
	if g.dtype != x.DType {
		n := c.fresh("aten._to_copy", g.Shape, graph.ElementwiseStrides(g.Shape, g.Layout), x.DType, work{bytes: g.bytes()})
		c.drop(g)
		g = n
	}
	return g
}

// sumTo is at::sum_to: one sum that keeps reduced dimensions, then a view without the leading ones.
func (c *compiler) sumTo(g *grad, shape graph.Dims) *grad {
	off := int(g.Shape.N - shape.N)
	kept := g.Shape
	for i := range kept.D[:kept.N] {
		if i < off || shape.D[i-off] == 1 {
			kept.D[i] = 1
		}
	}
	n := g
	if off > 0 || kept != g.Shape { // leading dimensions are summed even if they are 1
		n = c.fresh("aten.sum", kept, kept.Contiguous(), g.dtype, work{bytes: g.bytes()})
		c.drop(g)
	}
	if off > 0 {
		v := c.viewOf(n, shape, shape.Contiguous())
		c.drop(n)
		n = v
	}
	return n
}

// deliver puts a gradient into a tensor's input buffer.
func (c *compiler) deliver(t graph.TensorID, g *grad) {
	if old := c.pending[t]; old != nil {
		if !old.view && old.refs == 1 && c.stors[old.stor] == 1 && old.dtype == g.dtype && graph.IsDense(old.Shape, old.Stride) {
			c.drop(g)
		} else {
			st := graph.ElementwiseStrides(old.Shape, old.Layout, g.Layout)
			sum := c.fresh("aten.add", old.Shape, st, old.dtype, work{bytes: old.bytes() + g.bytes()})
			c.drop(old)
			c.drop(g)
			c.pending[t] = sum
		}
	} else {
		c.pending[t] = g
	}
	if c.leaf(t) {
		if c.uses[t]--; c.uses[t] == 0 {
			c.ready = append(c.ready, t)
		}
	}
}

// accumulate is AccumulateGrad of a leaf.
func (c *compiler) accumulate(t graph.TensorID) {
	g, x := c.pending[t], &c.g.Tensors[t]
	c.pending[t] = nil
	if g.refs != 1 || !sameStrides(x.Shape, g.Stride, x.Stride) {
		n := c.fresh("aten.clone", x.Shape, x.Stride, g.dtype, work{bytes: g.bytes()})
		c.drop(g)
		g = n
	}
	if x.Param >= 0 {
		c.event(event{kind: evAccumulate, op: c.op, x: int32(len(c.t.leaves))})
		c.t.leaves = append(c.t.leaves, accumulation{grad: g.stor, param: x.Param})
		return
	}
	c.left = append(c.left, g)
}

// sameStrides compares strides where they matter: in dimensions larger than 1.
func sameStrides(shape, a, b graph.Dims) bool {
	for i := range shape.D[:shape.N] {
		if shape.D[i] > 1 && a.D[i] != b.D[i] {
			return false
		}
	}
	return true
}
