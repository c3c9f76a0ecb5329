package memory

import (
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
)

// BlockProfile is one block's part of a training step with optimizer state (the last micro-batch, when there are
// several): what is alive before and after it and the most in between, forward and backward. A block between two layers is
// part of the profile of the layer behind it.
//
// What a block leaves in a Python local until the next block has run, such as Falcon's attention weights, is the next
// block's: it is not part of ForwardBefore and ForwardAfter, and ForwardPeak counts it whether it was saved or not.
// Else a block's forward would depend on how the block before is treated.
type BlockProfile struct {
	ForwardBefore, ForwardAfter, ForwardPeak int64
	// Left is what the block leaves so: the most by which a ForwardPeak counts too much.
	Left                                        int64
	BackwardBefore, BackwardAfter, BackwardPeak int64
	// Longer is the most by which BackwardPeak counts too much: it counts what the block lets go of, of what ProfileShared
	// is told of and another block made, to the end of its backward. Another layer may hold it longer.
	Longer int64
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
func ProfileShared(s *Schedule, sheet *gpu.Sheet, shared map[model.StorageID]bool) (*Timeline, []BlockProfile, error) {
	m := newMachine(s)
	if sheet != nil {
		m.cost = s.Program.costsOn(sheet)
	}
	m.prof = &profiler{blocks: make([]BlockProfile, len(m.g.Blocks)), of: profiled(m.g), left: leftovers(m.g), shared: shared}
	tl := &Timeline{schedule: s}
	if err := m.settled(tl); err != nil {
		return nil, nil, err
	}
	tl.Times = m.time
	return tl, m.prof.blocks, nil
}

// profiler follows a machine from block to block.
type profiler struct {
	blocks []BlockProfile
	of     []int32 // by block: the one whose profile it is part of
	at     int32   // the block that runs, or −1
	kept   int64   // parameter gradients when it began
	others int64   // other gradients when it began
	spent  Times   // when it began
	host   int64   // host bytes when it began
	// left are the storages that each block leaves to the next one; lift is the part of them that was saved by the block
	// before the one that runs.
	left [][]model.StorageID
	lift int64
	// shared may be held by several layers; gone is what of it the backward of the block at hand has let go of, top the most
	// that was alive.
	shared    map[model.StorageID]bool
	gone, top int64
}

// profiled is, by block, the block whose profile it is part of: behind the first layer and before the last, the next layer.
func profiled(g *model.Graph) []int32 {
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

// leftovers are, by block, the storages made in it that a local holds until some op of the next block, which does not
// read them.
func leftovers(g *model.Graph) [][]model.StorageID {
	out := make([][]model.StorageID, len(g.Blocks))
	for i := range g.Storages {
		st := &g.Storages[i]
		if st.Born < 0 || st.Drop >= model.DropAfterForward {
			continue
		}
		b := g.Ops[st.Born].Block
		if g.Ops[st.Drop].Block == b+1 && !reads(g, b+1, model.StorageID(i)) {
			out[b] = append(out[b], model.StorageID(i))
		}
	}
	return out
}

// reads is true if an op of the block takes a tensor on the storage.
func reads(g *model.Graph, block int32, st model.StorageID) bool {
	for i := g.Blocks[block].First; i < g.Blocks[block].End; i++ {
		if slices.ContainsFunc(g.Inputs(&g.Ops[i]), func(t model.TensorID) bool { return g.Tensors[t].Storage == st }) {
			return true
		}
	}
	return false
}

// loose is how much of what a block leaves is not saved, and all of it.
func (p *profiler) loose(m *machine, b int32) (loose, all int64) {
	if b < 0 {
		return 0, 0
	}
	for _, st := range p.left[b] {
		all += m.g.Storages[st].Bytes
		if m.refs[0][st] == 1 {
			loose += m.g.Storages[st].Bytes
		}
	}
	return loose, all
}

// reset starts a pass over the blocks.
func (p *profiler) reset() { p.at = -1 }

// forward notes that block b runs now.
func (p *profiler) forward(m *machine, b int32) {
	if b = p.of[b]; b == p.at {
		return
	}
	p.closeForward(m)
	loose, all := p.loose(m, p.at)
	p.at, p.lift = b, all-loose
	p.blocks[b].ForwardBefore, p.blocks[b].ForwardPeak, p.blocks[b].Transfer = m.live-loose, m.live+p.lift, 0
	p.spent, p.host = m.time, m.host
}

func (p *profiler) closeForward(m *machine) {
	if p.at >= 0 {
		loose, all := p.loose(m, p.at)
		p.blocks[p.at].ForwardAfter, p.blocks[p.at].Left = m.live-loose, all
		p.blocks[p.at].Transfer = m.time.Transfer - p.spent.Transfer
		p.blocks[p.at].Host = m.host - p.host
		p.blocks[p.at].Forward = m.time.Forward - p.spent.Forward
	}
}

// backward notes that block b's backward runs now; kept are the bytes of parameter gradients, others of other gradients.
func (p *profiler) backward(m *machine, b int32, kept, others int64) {
	if b = p.of[b]; b == p.at {
		return
	}
	p.closeBackward(m, kept, others)
	p.at, p.kept, p.others, p.spent = b, kept, others, m.time
	p.blocks[b].BackwardBefore, p.blocks[b].BackwardPeak = m.live, m.live
	p.gone, p.top = 0, m.live
}

func (p *profiler) closeBackward(m *machine, kept, others int64) {
	if p.at >= 0 {
		b := &p.blocks[p.at]
		b.BackwardAfter, b.Grad, b.Carried = m.live, kept-p.kept, others-p.others
		b.Longer = b.BackwardPeak - p.top
		b.Backward = m.time.Backward - p.spent.Backward
		b.Recompute = m.time.Recompute - p.spent.Recompute
		b.Transfer += m.time.Transfer - p.spent.Transfer
	}
}

// peak notes what is alive after an allocation.
func (p *profiler) peak(m *machine) {
	switch {
	case p.at < 0:
	case m.phase == Forward:
		p.blocks[p.at].ForwardPeak = max(p.blocks[p.at].ForwardPeak, m.live+p.lift)
	case m.phase == Backward:
		p.blocks[p.at].BackwardPeak = max(p.blocks[p.at].BackwardPeak, m.live+p.gone)
		p.top = max(p.top, m.live)
	}
}

// freed notes that a storage is gone.
func (p *profiler) freed(m *machine, st model.StorageID) {
	if m.phase == Backward && p.at >= 0 && p.shared[st] && p.of[m.g.Ops[m.g.Storages[st].Born].Block] != p.at {
		p.gone += m.g.Storages[st].Bytes
	}
}
