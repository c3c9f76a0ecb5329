package memory

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
)

// Times are nanoseconds of one training step by what they are spent on. Kernels run one after the other.
type Times struct {
	Forward, Backward, Recompute, Transfer, Optimizer int64
}

// Step is the whole step in nanoseconds.
func (t Times) Step() int64 { return t.Forward + t.Backward + t.Recompute + t.Transfer + t.Optimizer }

func (t Times) plus(o Times) Times {
	return Times{t.Forward + o.Forward, t.Backward + o.Backward, t.Recompute + o.Recompute, t.Transfer + o.Transfer, t.Optimizer + o.Optimizer}
}

func (t Times) minus(o Times) Times { return t.plus(o.times(-1)) }

func (t Times) times(n int64) Times {
	return Times{n * t.Forward, n * t.Backward, n * t.Recompute, n * t.Transfer, n * t.Optimizer}
}

// costs are the nanoseconds of every forward op and of every kernel of backward on one card.
type costs struct {
	sheet *gpu.Sheet
	ops   []int64 // by op
	grads []int64 // by gradient storage
}

// costsOn prices a program on a card by the roofline.
func (p *Program) costsOn(s *gpu.Sheet) *costs {
	if p.priced != nil && p.priced.sheet == s {
		return p.priced
	}
	c := &costs{sheet: s, ops: make([]int64, len(p.Graph.Ops)), grads: make([]int64, len(p.tape.grads))}
	memo := map[work]int64{}
	price := func(w work) int64 {
		t, ok := memo[w]
		if !ok {
			t = s.OpTime(w.flops, w.bytes, w.dtype, w.mat)
			memo[w] = t
		}
		return t
	}
	g := p.Graph
	for i := range g.Ops {
		op := &g.Ops[i]
		w := op.Row().Work
		if w == model.Free {
			continue
		}
		c.ops[i] = price(work{
			flops: g.FLOPs(op), bytes: g.Moved(op), dtype: g.Tensors[g.Outputs(op)[0]].DType, mat: w == model.MatMul || w == model.Attention,
		})
	}
	for i := range p.tape.grads {
		c.grads[i] = price(p.tape.grads[i].work)
	}
	p.priced = c
	return c
}

// spend adds the time of a forward op: of the forward pass, or of a recompute.
func (m *machine) spend(i model.OpID) {
	if m.phase == Forward {
		m.time.Forward += m.cost.ops[i]
	} else {
		m.time.Recompute += m.cost.ops[i]
	}
}

// transfer adds the time of a copy over the host link, on the compute stream as save_on_cpu does it.
func (m *machine) transfer(bytes int64) {
	if m.cost != nil {
		m.time.Transfer += m.cost.sheet.CopyTime(bytes)
	}
}
