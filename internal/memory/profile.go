package memory

import "ckptplan/internal/gpu"

// BlockProfile is one block's part of a training step with optimizer state (the last micro-batch, when there are
// several): what is alive before and after it and the most in between, forward and backward.
type BlockProfile struct {
	ForwardBefore, ForwardAfter, ForwardPeak    int64
	BackwardBefore, BackwardAfter, BackwardPeak int64
	// Grad is the parameter gradients that appear in its backward and stay.
	Grad int64
	// Forward, Backward, Recompute and Transfer are nanoseconds.
	Forward, Backward, Recompute, Transfer int64
	// Host is what it puts into host memory in forward.
	Host int64
}

// Profile simulates a schedule and gives its timeline and every block's part of it, by block number.
func Profile(s *Schedule, sheet *gpu.Sheet) (*Timeline, []BlockProfile, error) {
	m := newMachine(s)
	if sheet != nil {
		m.cost = s.Program.costsOn(sheet)
	}
	m.prof = &profiler{blocks: make([]BlockProfile, len(m.g.Blocks))}
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
	at     int32 // the block that runs, or −1
	kept   int64 // parameter gradients when it began
	spent  Times // when it began
	host   int64 // host bytes when it began
}

// reset starts a pass over the blocks.
func (p *profiler) reset() { p.at = -1 }

// forward notes that block b runs now.
func (p *profiler) forward(m *machine, b int32) {
	if b == p.at {
		return
	}
	p.closeForward(m)
	p.at = b
	p.blocks[b].ForwardBefore, p.blocks[b].ForwardPeak, p.blocks[b].Transfer = m.live, m.live, 0
	p.spent, p.host = m.time, m.host
}

func (p *profiler) closeForward(m *machine) {
	if p.at >= 0 {
		p.blocks[p.at].ForwardAfter = m.live
		p.blocks[p.at].Transfer = m.time.Transfer - p.spent.Transfer
		p.blocks[p.at].Host = m.host - p.host
		p.blocks[p.at].Forward = m.time.Forward - p.spent.Forward
	}
}

// backward notes that block b's backward runs now.
func (p *profiler) backward(m *machine, b int32, kept int64) {
	if b == p.at {
		return
	}
	p.closeBackward(m, kept)
	p.at, p.kept, p.spent = b, kept, m.time
	p.blocks[b].BackwardBefore, p.blocks[b].BackwardPeak = m.live, m.live
}

func (p *profiler) closeBackward(m *machine, kept int64) {
	if p.at >= 0 {
		b := &p.blocks[p.at]
		b.BackwardAfter, b.Grad = m.live, kept-p.kept
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
		p.blocks[p.at].ForwardPeak = max(p.blocks[p.at].ForwardPeak, m.live)
	case m.phase == Backward:
		p.blocks[p.at].BackwardPeak = max(p.blocks[p.at].BackwardPeak, m.live)
	}
}
