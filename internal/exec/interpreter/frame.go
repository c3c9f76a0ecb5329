package interpreter

import (
	"ckptplan/internal/exec/random"
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/unit"
)

// frame is a running function's view of storages: the locals that it made and holds, and around them what its
// checkpoint captured. The forward pass itself has a frame without a checkpoint.
type frame struct {
	engine *engine
	point  *checkpoint // whose region is recomputed, or nil
	locals map[graph.StorageID]*buffer
	calls  []arguments // innermost last
}

// arguments are what a checkpoint inside another's region was called with: the region around it keeps nothing, but
// the call's frame does until it returns.
type arguments struct {
	end  graph.OpID
	bufs []*buffer
}

// call holds a region's inputs while it runs.
func (f *frame) call(reg *memory.Region) {
	c := arguments{end: reg.End}
	for _, st := range reg.Inputs {
		c.bufs = append(c.bufs, f.buffer(st).hold())
	}
	f.calls = append(f.calls, c)
}

// returned drops the arguments of the calls that end before op i.
func (f *frame) returned(i graph.OpID) {
	for n := len(f.calls) - 1; n >= 0 && f.calls[n].end <= i; n-- {
		for _, b := range f.calls[n].bufs {
			b.release()
		}
		f.calls = f.calls[:n]
	}
}

func (e *engine) frame(p *checkpoint) *frame {
	return &frame{engine: e, point: p, locals: map[graph.StorageID]*buffer{}}
}

// buffer is a storage as the frame sees it.
func (f *frame) buffer(st graph.StorageID) *buffer {
	if b, ok := f.locals[st]; ok {
		return b
	}
	if f.point != nil {
		if b, ok := f.point.inputs[st]; ok {
			return b
		}
	}
	if b := f.engine.static[st]; b != nil {
		return b
	}
	fail("%s is read after it was freed", f.engine.g.Storages[st].Name)
	return nil
}

func (f *frame) tensor(t graph.TensorID) tensor {
	x := &f.engine.g.Tensors[t]
	return over(x, f.buffer(x.Storage))
}

// drop frees a local.
func (f *frame) drop(st graph.StorageID) {
	if b, ok := f.locals[st]; ok {
		delete(f.locals, st)
		b.release()
	}
}

// leave frees all locals: the function has returned, or its recompute was stopped.
func (f *frame) leave() {
	f.returned(graph.OpID(len(f.engine.g.Ops)))
	for st := range f.locals {
		f.drop(st)
	}
}

// run executes the ops first…end−1, which region r encloses (−1: none). It gives false if a recompute stopped early,
// since backward had everything that it needs.
func (f *frame) run(r int32, first, end graph.OpID) bool {
	for i := first; i < end; i++ {
		f.engine.goOn()
		f.returned(i)
		if !f.enter(r, i) || !f.execute(r, i) {
			return false
		}
		for _, st := range f.engine.late[i] {
			if f.point == nil || f.engine.g.Storages[st].Born >= first { // storages that came back from the host stay
				f.drop(st)
			}
		}
	}
	f.returned(end)
	return true
}

// execute runs one op: autograd saves its inputs, the kernel runs, autograd saves its outputs.
func (f *frame) execute(r int32, i graph.OpID) bool {
	e := f.engine
	op := &e.g.Ops[i]
	if !f.save(r, i, false) {
		return false
	}
	e.inRegion(i, func(p *checkpoint) { p.before(f, i) })
	if !f.cached(i) {
		f.compute(i, op)
	}
	e.offset += random.Counters(draws(e.g, op))
	e.inRegion(i, func(p *checkpoint) { p.after(f, i) })
	return f.save(r, i, true)
}

// compute allocates an op's outputs and runs its kernel.
func (f *frame) compute(i graph.OpID, op *graph.Op) {
	e := f.engine
	a := gpu.Args{Attr: op.Attr, Scalar: op.Scalar, Drop: op.Drop, Key: e.seed, Offset: e.offset}
	for _, t := range e.g.Inputs(op) {
		a.In = append(a.In, f.tensor(t).at())
	}
	for _, t := range e.g.Outputs(op) {
		st := e.g.Tensors[t].Storage
		s := &e.g.Storages[st]
		switch {
		case s.Born == i:
			if f.locals[st] == nil {
				f.locals[st] = e.alloc(s.Name, e.storeType(e.types[st]), s.Bytes/e.types[st].Size())
			}
		case op.Row().Work != graph.Free:
			f.buffer(st).version++ // written in place
		}
		a.Out = append(a.Out, f.tensor(t).at())
	}
	if k := forwardKernel(e.g, op); k != "" {
		e.launch(k, &a)
	}
}

// save keeps what the op's row declares, inputs or outputs. It gives false when a recompute has all that it needs.
func (f *frame) save(r int32, i graph.OpID, outputs bool) bool {
	e := f.engine
	op := &e.g.Ops[i]
	own := e.schedule.Owner[i]
	if f.point != nil && own != r {
		return true // an inner region's: it recomputes by itself
	}
	for _, s := range op.Row().Save {
		t := e.g.Tensor(op, s.Slot)
		if s.If&op.Needs == 0 || t < 0 || outputs != (s.Slot >= graph.O0) {
			continue
		}
		st := e.g.Tensors[t].Storage
		if f.point != nil {
			f.point.again[packed{i, s.Slot}] = f.buffer(st).hold()
			if !f.point.arrived() {
				return false
			}
			continue
		}
		k := savedTensor{slot: s.Slot, tensor: t}
		switch {
		case own < 0 || e.schedule.Regions[own].HostSaved && e.g.Storages[st].Role == graph.Parameter:
			k.buf = f.buffer(st).hold()
		case e.schedule.Regions[own].HostSaved:
			k.host = e.toHost(f.tensor(t))
		default:
			k.point = e.points[own]
			k.point.packs++
			k.point.holders++
		}
		e.nodes[i].saved = append(e.nodes[i].saved, k)
	}
	return true
}

// hostCopy is a tensor in the host's memory.
type hostCopy struct {
	shape graph.Dims
	dtype dtype.DType
	mem   []byte
}

// toHost copies a tensor to the host. A strided one is made contiguous on the device first.
func (e *engine) toHost(t tensor) *hostCopy {
	c := &hostCopy{shape: t.Shape, dtype: t.DType}
	if graph.IsDense(t.Shape, t.Stride) {
		c.mem = t.rowMajor()
	} else {
		b := e.alloc("aten.clone", t.DType, t.Count())
		e.apply(gpu.Copy, b.view(t.Shape, t.Shape.Contiguous(), 0).at(), t.at())
		c.mem = b.whole().rowMajor()
		b.release()
	}
	e.onHost += unit.Bytes(len(c.mem))
	e.hostPeak = max(e.hostPeak, e.onHost)
	return c
}

// fromHost brings a copy back into a new buffer.
func (e *engine) fromHost(c *hostCopy) tensor {
	b := e.alloc("aten._to_copy", c.dtype, c.shape.Count())
	must(e.device.CopyIn(b.ptr, 0, c.mem))
	e.forgetCopy(c)
	return b.view(c.shape, c.shape.Contiguous(), 0)
}

// forgetCopy frees the host's memory of a copy.
func (e *engine) forgetCopy(c *hostCopy) {
	e.onHost -= unit.Bytes(len(c.mem))
	c.mem = nil
}

// forward runs the forward pass. Locals that outlive it are freed at its end or after backward.
func (e *engine) forward() {
	e.nodes = make([]*node, len(e.g.Ops))
	for i := range e.nodes {
		e.nodes[i] = &node{engine: e, id: graph.OpID(i), op: &e.g.Ops[i]}
	}
	e.points = make([]*checkpoint, len(e.schedule.Regions))
	e.top = e.frame(nil)
	e.top.run(-1, 0, graph.OpID(len(e.g.Ops)))
	e.loss = float64(e.top.tensor(e.g.Loss).reals()[0])
	e.result.afterForward = e.used
	for _, st := range e.late[graph.DropAfterForward] {
		e.top.drop(st)
	}
	e.result.beforeBackward = e.used
}
