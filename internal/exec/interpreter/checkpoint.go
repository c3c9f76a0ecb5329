package interpreter

import (
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
)

// checkpoint is one call of torch.utils.checkpoint (non-reentrant): what it keeps for running its region again, and,
// once it has run again, the saved tensors until their nodes take them. It lives while a node may ask it for a tensor.
type checkpoint struct {
	engine *engine
	id     int32
	region *memory.Region
	parent *checkpoint

	// inputs are the storages that the region reads and others made, sent those of them that went to the host. A
	// checkpoint inside another has them from the outer one's recompute on.
	inputs map[graph.StorageID]*buffer
	sent   map[graph.StorageID]*hostCopy
	// cache are the outputs of cached ops.
	cache map[graph.OpID][]cachedOutput
	// packs is how many tensors its region saved in forward, with the inputs of each inner checkpoint counted as one; left
	// is how many of them the recompute has not reached.
	packs, left int
	// holders are the saved tensors whose nodes have not been released, and inner checkpoints.
	holders int
	done    bool
	again   map[packed]*buffer
	record  record
}

// packed names a saved tensor of a region: an op and a slot of its row.
type packed struct {
	op   graph.OpID
	slot graph.Slot
}

type cachedOutput struct {
	storage graph.StorageID
	buf     *buffer
	version int
}

// enter begins the checkpoints whose regions start at op i inside region r, outermost first. In a recompute it only
// captures the inputs of the next inner ones, and gives false if nothing more is needed.
func (f *frame) enter(r int32, i graph.OpID) bool {
	e := f.engine
	var starts []int32
	for c := e.schedule.Owner[i]; c != r && c >= 0; c = e.schedule.Regions[c].Parent {
		if reg := &e.schedule.Regions[c]; reg.First == i && !reg.HostSaved && e.savesIn(reg) {
			starts = append(starts, c)
		}
	}
	slices.Reverse(starts)
	for _, c := range starts {
		reg := &e.schedule.Regions[c]
		if f.point != nil {
			if reg.Parent != r {
				f.call(reg)
				continue
			}
			e.points[c].capture(f)
			if !f.point.arrived() {
				return false
			}
			continue
		}
		p := &checkpoint{engine: e, id: c, region: reg, again: map[packed]*buffer{}, cache: map[graph.OpID][]cachedOutput{}}
		e.points[c] = p
		p.record.offset = e.offset
		if reg.Parent < 0 {
			p.capture(f)
			continue
		}
		f.call(reg)
		p.parent = e.points[reg.Parent]
		p.parent.packs++
		p.parent.holders++
	}
	return true
}

// savesIn reports whether autograd saves any tensor in a region: a checkpoint around ops without gradient keeps none.
func (e *engine) savesIn(reg *memory.Region) bool {
	for i := reg.First; i < reg.End; i++ {
		op := &e.g.Ops[i]
		for _, s := range op.Row().Save {
			if s.If&op.Needs != 0 && e.g.Tensor(op, s.Slot) >= 0 {
				return true
			}
		}
	}
	return false
}

// capture keeps the region's inputs as they are in the frame now.
func (p *checkpoint) capture(f *frame) {
	p.inputs = map[graph.StorageID]*buffer{}
	for _, st := range p.region.Inputs {
		p.inputs[st] = f.buffer(st).hold()
	}
	p.sent = map[graph.StorageID]*hostCopy{}
	for _, st := range p.region.Sent {
		p.sent[st] = p.engine.toHost(f.buffer(st).whole())
	}
	p.record.capture(p)
}

// arrived counts a saved tensor of the recompute. It is false for the last one.
func (p *checkpoint) arrived() bool {
	p.left--
	return p.left > 0
}

// recompute runs the region again, once, until the last tensor that forward saved is there. The generator starts from its
// state in forward and is restored afterwards.
func (p *checkpoint) recompute() {
	if p.done {
		return
	}
	if p.parent != nil {
		p.parent.recompute()
	}
	p.done = true
	e := p.engine
	if p.inputs == nil {
		fail("the recompute of %s did not come to an inner checkpoint", p.name())
	}
	now := e.offset
	if e.fault != FaultRandomState {
		e.offset = p.record.offset
	}
	e.again++
	f := e.frame(p)
	for _, st := range p.region.Sent {
		t := e.fromHost(p.sent[st])
		t.buf.name = e.g.Storages[st].Name
		f.locals[st] = t.buf
	}
	p.sent = nil
	for _, st := range p.region.Recast {
		born := e.g.Storages[st].Born
		f.compute(born, &e.g.Ops[born])
	}
	p.record.compareInputs(p)
	p.left = p.packs
	if p.left > 0 {
		f.run(p.id, p.region.First, p.region.End)
	}
	f.leave()
	if p.left > 0 {
		fail("the recompute of %s saved %d tensors fewer than its forward", p.name(), p.left)
	}
	if p.parent != nil {
		p.dropInputs()
	}
	e.again--
	e.offset = now
}

func (p *checkpoint) dropInputs() {
	for _, b := range p.inputs {
		b.release()
	}
	p.inputs = nil
}

// take gives a recomputed tensor to the node that saved it.
func (p *checkpoint) take(k packed) *buffer {
	p.recompute()
	b, ok := p.again[k]
	if !ok {
		fail("the recompute of %s did not save what its forward saved", p.name())
	}
	delete(p.again, k)
	return b
}

// forget is called when a node that holds one of the region's tensors is released. With the last one the checkpoint
// is freed.
func (p *checkpoint) forget() {
	if p.holders--; p.holders > 0 {
		return
	}
	p.dropInputs()
	for _, outs := range p.cache {
		for _, c := range outs {
			c.buf.release()
		}
	}
	p.cache = nil
	if p.parent != nil {
		p.parent.forget()
	}
}

// keep stores a cached op's outputs in forward.
func (p *checkpoint) keep(f *frame, i graph.OpID) {
	e := p.engine
	for _, t := range e.g.Outputs(&e.g.Ops[i]) {
		if st := e.g.Tensors[t].Storage; e.g.Storages[st].Born == i {
			b := f.locals[st]
			p.cache[i] = append(p.cache[i], cachedOutput{st, b.hold(), b.version})
		}
	}
}

// cached gives a recompute the outputs of a cached op instead of running it. Views are free and are made again.
func (f *frame) cached(i graph.OpID) bool {
	p := f.point
	if p == nil || !p.region.Cached[i] || len(p.cache[i]) == 0 {
		return false
	}
	for _, c := range p.cache[i] {
		if c.buf.version != c.version {
			p.differs("input")
		}
		f.locals[c.storage] = c.buf
	}
	delete(p.cache, i)
	return true
}

// inRegion calls f for the checkpoint that op i is in, outside a recompute that of its innermost region.
func (e *engine) inRegion(i graph.OpID, f func(p *checkpoint)) {
	if own := e.schedule.Owner[i]; own >= 0 && e.points[own] != nil {
		f(e.points[own])
	}
}

// name says where the region is, as "layers.3: q_proj … o_proj".
func (p *checkpoint) name() string {
	g := p.engine.g
	first, last := g.Ops[p.region.First].Block, g.Ops[p.region.End-1].Block
	if first != last {
		return g.Blocks[first].Label + " to " + g.Blocks[last].Label
	}
	for _, s := range g.Spans {
		if s.First == p.region.First && s.End == p.region.End && s.Name != "layer" {
			return g.Blocks[first].Label + " " + s.Name
		}
	}
	return g.Blocks[first].Label
}
