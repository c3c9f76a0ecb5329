package host

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// frame is a running function's view of storages: the locals that it made and holds, and around them what its
// checkpoint captured. The forward pass itself has a frame without a checkpoint.
type frame struct {
	engine *engine
	point  *checkpoint // whose region is recomputed, or nil
	locals map[model.StorageID]*buffer
	calls  []arguments // innermost last
}

// arguments are what a checkpoint inside another's region was called with: the region around it keeps nothing, but
// the call's frame does until it returns.
type arguments struct {
	end  model.OpID
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

// returned lets go of the arguments of the calls that end before op i.
func (f *frame) returned(i model.OpID) {
	for n := len(f.calls) - 1; n >= 0 && f.calls[n].end <= i; n-- {
		for _, b := range f.calls[n].bufs {
			b.release()
		}
		f.calls = f.calls[:n]
	}
}

func (e *engine) frame(p *checkpoint) *frame {
	return &frame{engine: e, point: p, locals: map[model.StorageID]*buffer{}}
}

// buffer is a storage as the frame sees it.
func (f *frame) buffer(st model.StorageID) *buffer {
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
	fail("%s is read where nothing holds it", f.engine.g.Storages[st].Name)
	return nil
}

func (f *frame) tensor(t model.TensorID) tensor {
	x := &f.engine.g.Tensors[t]
	return x2t(x, f.buffer(x.Storage))
}

// x2t is a graph's tensor over a buffer.
func x2t(x *model.Tensor, b *buffer) tensor {
	return tensor{buf: b, shape: x.Shape, stride: x.Stride, offset: x.Offset, dtype: x.DType}
}

// drop lets go of a local.
func (f *frame) drop(st model.StorageID) {
	if b, ok := f.locals[st]; ok {
		delete(f.locals, st)
		b.release()
	}
}

// leave lets go of all locals: the function has returned, or its recompute was stopped.
func (f *frame) leave() {
	f.returned(model.OpID(len(f.engine.g.Ops)))
	for st := range f.locals {
		f.drop(st)
	}
}

// run executes the ops first…end−1, which region r encloses (−1: none). It gives false if a recompute stopped early,
// since everything that backward needs was there.
func (f *frame) run(r int32, first, end model.OpID) bool {
	for i := first; i < end; i++ {
		f.engine.goOn()
		f.returned(i)
		if !f.enter(r, i) || !f.execute(r, i) {
			return false
		}
		for _, st := range f.engine.late[i] {
			if f.point == nil || f.engine.g.Storages[st].Born >= first { // what came back from the host stays
				f.drop(st)
			}
		}
	}
	f.returned(end)
	return true
}

// execute runs one op: autograd saves its inputs, the kernel runs, autograd saves its outputs.
func (f *frame) execute(r int32, i model.OpID) bool {
	e := f.engine
	op := &e.g.Ops[i]
	if !f.save(r, i, false) {
		return false
	}
	e.inRegion(i, func(p *checkpoint) { p.before(f, i) })
	if !f.cached(i) {
		f.compute(i, op)
	}
	e.offset += counters(draws(e.g, op))
	e.inRegion(i, func(p *checkpoint) { p.after(f, i) })
	return f.save(r, i, true)
}

// compute allocates an op's outputs and runs its kernel.
func (f *frame) compute(i model.OpID, op *model.Op) {
	e := f.engine
	c := forwardCall{engine: e, op: op, name: op.Row().Aten}
	for _, t := range e.g.Inputs(op) {
		c.in = append(c.in, f.tensor(t))
	}
	for _, t := range e.g.Outputs(op) {
		st := e.g.Tensors[t].Storage
		s := &e.g.Storages[st]
		switch {
		case s.Born == i:
			if f.locals[st] == nil {
				f.locals[st] = e.alloc(s.Name, e.types[st], s.Bytes/e.types[st].Size())
			}
			if op.Kind == model.OpPlain {
				c.name = s.Name
			}
		case op.Row().Work != model.Free:
			f.buffer(st).version++ // written in place
		}
		c.out = append(c.out, f.tensor(t))
	}
	if op.Row().Work != model.Free {
		forwardKernels[op.Kind](&c)
	}
}

// save keeps what the op's row declares, inputs or outputs. It gives false when a recompute has all that it needs.
func (f *frame) save(r int32, i model.OpID, outputs bool) bool {
	e := f.engine
	op := &e.g.Ops[i]
	own := e.schedule.Owner[i]
	if f.point != nil && own != r {
		return true // an inner region's: it recomputes by itself
	}
	for _, s := range op.Row().Save {
		t := e.g.Tensor(op, s.Slot)
		if s.If&op.Needs == 0 || t < 0 || outputs != (s.Slot >= model.O0) {
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
		case own < 0 || e.schedule.Regions[own].HostSaved && e.g.Storages[st].Role == model.Parameter:
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
	ptr    gpu.DevicePtr
	tensor tensor // over a buffer that the device does not count
}

// toHost copies a tensor to the host. A strided one is made contiguous on the device first.
func (e *engine) toHost(t tensor) *hostCopy {
	ptr, err := e.pinned.Alloc(unit.Bytes(t.count() * t.dtype.Size()))
	if err != nil {
		panic(failure{err})
	}
	if !model.IsDense(t.shape, t.stride) {
		e.alloc("aten.clone", t.dtype, t.count()).release()
	}
	c := t
	c.offset, c.stride = 0, t.shape.Contiguous()
	c.buf = &buffer{engine: e, refs: 1, name: t.buf.name}
	switch {
	case t.buf.reals != nil:
		c.buf.reals = append([]float32(nil), t.reals()...)
	case t.buf.bools != nil:
		c.buf.bools = append([]bool(nil), t.bools()...)
	default:
		c.buf.ints = append([]int64(nil), t.ints()...)
	}
	return &hostCopy{ptr, c}
}

// fromHost brings a copy back into a new buffer.
func (e *engine) fromHost(c *hostCopy) tensor {
	t := c.tensor
	t.buf = e.alloc("aten._to_copy", t.dtype, t.count())
	copy(t.buf.reals, c.tensor.buf.reals)
	copy(t.buf.ints, c.tensor.buf.ints)
	copy(t.buf.bools, c.tensor.buf.bools)
	if err := e.pinned.Free(c.ptr); err != nil {
		panic(failure{err})
	}
	return t
}

// forward runs the forward pass. Locals that outlive it are let go at its end or after backward.
func (e *engine) forward() {
	e.nodes = make([]*node, len(e.g.Ops))
	for i := range e.nodes {
		e.nodes[i] = &node{engine: e, id: model.OpID(i), op: &e.g.Ops[i]}
	}
	e.points = make([]*checkpoint, len(e.schedule.Regions))
	e.top = e.frame(nil)
	e.top.run(-1, 0, model.OpID(len(e.g.Ops)))
	e.loss = float64(e.top.tensor(e.g.Loss).reals()[0])
	e.result.afterForward = e.device.Used()
	for _, st := range e.late[model.DropAfterForward] {
		e.top.drop(st)
	}
	e.result.beforeBackward = e.device.Used()
}

// missingKernels names the ops of a graph that have no kernel.
func missingKernels(g *model.Graph) []string {
	var missing []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			missing = append(missing, name)
		}
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		row := op.Row()
		if row.Work != model.Free && forwardKernels[op.Kind] == nil {
			add(row.Aten)
		}
		switch op.Kind {
		case model.OpMulScalar, model.OpAddScalar, model.OpDivScalar, model.OpPowScalar:
			if op.Scalar == 0 {
				add("the number of " + row.Aten)
			}
		}
		if op.Kind == model.OpPlain {
			if name := g.Storages[g.Tensors[g.Outputs(op)[0]].Storage].Name; plainKernels[name] == nil {
				add(name)
			}
		}
		for k := range row.Back {
			s := &row.Back[k]
			if op.Needs != 0 && kernelStep(s.How) && backwardKernels[s.Aten] == nil {
				add(fmt.Sprintf("%s (backward of %s)", s.Aten, row.Aten))
			}
		}
	}
	return missing
}
