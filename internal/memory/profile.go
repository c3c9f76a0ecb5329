package memory

import (
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/graph"
)

// BlockProfile is one block's part of a training step with optimizer state (the last micro-batch, when there are
// several): what is alive before and after it and the most in between, forward and backward. A block between two layers is
// part of the profile of the layer behind it.
//
// A tensor that a block leaves in a Python local until the next block has run, such as Falcon's attention weights, is
// charged to the next block: ForwardBefore and ForwardAfter leave it out, and ForwardPeak counts it whether it was saved or
// not. Otherwise a block's forward would depend on how the block before it is treated.
type BlockProfile struct {
	ForwardBefore, ForwardAfter, ForwardPeak int64
	// ForwardExcess is the bytes that the block leaves in such locals: an upper bound on how much the next block's
	// ForwardPeak overstates.
	ForwardExcess                               int64
	BackwardBefore, BackwardAfter, BackwardPeak int64
	// BackwardExcess is an upper bound on how much BackwardPeak overstates: shared storages that this block frees early
	// are counted to the end of its backward, because another layer may still hold them.
	BackwardExcess int64
	// Grad is the parameter gradients that appear in its backward and stay, Carried the growth of what is alive of other
	// gradients: the gradient of its input for that of its output, and of tensors that several blocks read.
	Grad, Carried int64
	// Forward, Backward, Recompute and Transfer are nanoseconds.
	Forward, Backward, Recompute, Transfer int64
	// Host is what it puts into host memory in forward.
	Host int64
}

// Profile simulates a schedule and gives its timeline and every block's part of it, by block number.
func Profile(s *Schedule, sheet *gpu.Sheet) (*Timeline, []BlockProfile, error) {
	return ProfileShared(s, sheet, nil)
}

// ProfileShared is Profile with storages that several layers may hold.
func ProfileShared(s *Schedule, sheet *gpu.Sheet, shared map[graph.StorageID]bool) (*Timeline, []BlockProfile, error) {
	g := s.Program.Graph
	p := &profiler{blocks: make([]BlockProfile, len(g.Blocks)), of: profiled(g), left: leftovers(g), shared: shared, at: -1}
	tl, err := walked(s, sheet, func(m *machine) Observer {
		p.m = m
		return p
	})
	if err != nil {
		return nil, nil, err
	}
	return tl, p.blocks, nil
}

// profiler observes a walk from block to block.
type profiler struct {
	m      *machine
	blocks []BlockProfile
	of     []int32 // by block: the one whose profile it is part of
	at     int32   // the block that runs, or −1
	grads  int64   // gradients when it began
	params int64   // parameter gradients among them
	spent  Times   // when it began
	host   int64   // host bytes when it began
	// left are the storages that each block leaves to the next one; lift is the part of them that was saved by the block
	// before the one that runs.
	left [][]graph.StorageID
	lift int64
	// shared may be held by several layers; gone is the part of it that the current block's backward has freed, top the
	// most that was alive.
	shared    map[graph.StorageID]bool
	gone, top int64
}

// profiled is, by block, the block whose profile it is part of: behind the first layer and before the last, the next layer.
func profiled(g *graph.Graph) []int32 {
	of := make([]int32, len(g.Blocks))
	next := int32(-1) // the layer behind
	for b := int32(len(of)) - 1; b >= 0; b-- {
		of[b] = b
		switch {
		case g.Blocks[b].Layer > 0:
			next = b
		case g.Blocks[b].Layer == 0:
			next = -1
		case next >= 0:
			of[b] = next
		}
	}
	return of
}

// leftovers are, by block, the storages made in it that a local holds until some op of the next block, although that block
// does not read them.
func leftovers(g *graph.Graph) [][]graph.StorageID {
	out := make([][]graph.StorageID, len(g.Blocks))
	for i := range g.Storages {
		st := &g.Storages[i]
		if st.Born < 0 || st.Drop >= graph.DropAfterForward {
			continue
		}
		b := g.Ops[st.Born].Block
		if g.Ops[st.Drop].Block == b+1 && !reads(g, b+1, graph.StorageID(i)) {
			out[b] = append(out[b], graph.StorageID(i))
		}
	}
	return out
}

// reads is true if an op of the block takes a tensor on the storage.
func reads(g *graph.Graph, block int32, st graph.StorageID) bool {
	for i := g.Blocks[block].First; i < g.Blocks[block].End; i++ {
		if slices.ContainsFunc(g.Inputs(&g.Ops[i]), func(t graph.TensorID) bool { return g.Tensors[t].Storage == st }) {
			return true
		}
	}
	return false
}

// loose is the bytes that a block leaves and that are not saved, and all the bytes that it leaves.
func (p *profiler) loose(b int32) (loose, all int64) {
	if b < 0 {
		return 0, 0
	}
	for _, st := range p.left[b] {
		all += p.m.g.Storages[st].Bytes
		if p.m.micro.refs[0][st] == 1 {
			loose += p.m.g.Storages[st].Bytes
		}
	}
	return loose, all
}

// Pass is before the first block.
func (p *profiler) Pass(Pass, *Instant) { p.at = -1 }

// Block ends one block's part and begins the next one's.
func (p *profiler) Block(b int32, at *Instant) {
	m, outside := p.m, b < 0 || int(b) == len(p.of)
	if !outside {
		if b = p.of[b]; b == p.at {
			return
		}
	}
	if at.Phase == Forward {
		loose, all := p.loose(p.at)
		if p.at >= 0 {
			x := &p.blocks[p.at]
			x.ForwardAfter, x.ForwardExcess = at.Bytes-loose, all
			x.Transfer = m.time.Transfer - p.spent.Transfer
			x.Host = m.host - p.host
			x.Forward = m.time.Forward - p.spent.Forward
		}
		if !outside {
			p.lift = all - loose
			x := &p.blocks[b]
			x.ForwardBefore, x.ForwardPeak, x.Transfer = at.Bytes-loose, at.Bytes+p.lift, 0
			p.host = m.host
		}
	} else {
		if p.at >= 0 {
			x := &p.blocks[p.at]
			x.BackwardAfter, x.Grad = at.Bytes, m.paramGrads-p.params
			x.Carried = m.gradBytes - p.grads - x.Grad
			x.BackwardExcess = x.BackwardPeak - p.top
			x.Backward = m.time.Backward - p.spent.Backward
			x.Recompute = m.time.Recompute - p.spent.Recompute
			x.Transfer += m.time.Transfer - p.spent.Transfer
		}
		if !outside {
			p.blocks[b].BackwardBefore, p.blocks[b].BackwardPeak = at.Bytes, at.Bytes
			p.grads, p.params, p.gone, p.top = m.gradBytes, m.paramGrads, 0, at.Bytes
		}
	}
	p.at, p.spent = b, m.time
	if outside {
		p.at = -1
	}
}

// Alloc notes what is alive after an allocation.
func (p *profiler) Alloc(_ ID, _ int64, at *Instant) {
	switch {
	case p.at < 0:
	case at.Phase == Forward:
		p.blocks[p.at].ForwardPeak = max(p.blocks[p.at].ForwardPeak, at.Bytes+p.lift)
	case at.Phase == Backward:
		p.blocks[p.at].BackwardPeak = max(p.blocks[p.at].BackwardPeak, at.Bytes+p.gone)
		p.top = max(p.top, at.Bytes)
	}
}

// Free notes that a shared storage was freed.
func (p *profiler) Free(id ID, bytes int64, at *Instant) {
	if len(p.shared) == 0 || at.Phase != Backward || p.at < 0 {
		return
	}
	if b := p.m.ids.Of(id); b.Kind == OfStorage && p.shared[graph.StorageID(b.Index)] && p.of[p.m.g.Ops[p.m.g.Storages[b.Index].Born].Block] != p.at {
		p.gone += bytes
	}
}
