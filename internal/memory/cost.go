package memory

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// Times are nanoseconds of one training step by what they are spent on. Kernels run one after the other.
type Times struct {
	Forward, Backward, Recompute, Transfer, Optimizer int64
	// Fixed is the part of Recompute that no plan changes: that of a head whose loss is computed in parts.
	Fixed int64
}

// Extra is what a plan adds to the step: recomputation of layers, and transfers.
func (t Times) Extra() int64 { return t.Recompute - t.Fixed + t.Transfer }

// Step is the whole step in nanoseconds.
func (t Times) Step() int64 { return t.Forward + t.Backward + t.Recompute + t.Transfer + t.Optimizer }

func (t Times) plus(o Times) Times {
	return Times{t.Forward + o.Forward, t.Backward + o.Backward, t.Recompute + o.Recompute, t.Transfer + o.Transfer, t.Optimizer + o.Optimizer, t.Fixed + o.Fixed}
}

func (t Times) minus(o Times) Times { return t.plus(o.times(-1)) }

func (t Times) times(n int64) Times {
	return Times{n * t.Forward, n * t.Backward, n * t.Recompute, n * t.Transfer, n * t.Optimizer, n * t.Fixed}
}

// work is what a kernel does, for the roofline.
type work struct {
	flops int64
	bytes int64
	dtype dtype.DType
	mat   bool
}

// kernels numbers the distinct kernels of a pass: equal layers run the same few dozen.
type kernels struct {
	list   []work
	number map[work]int32
}

func newKernels() kernels { return kernels{number: map[work]int32{}} }

func (k *kernels) of(w work) int32 {
	n, ok := k.number[w]
	if !ok {
		n = int32(len(k.list))
		k.number[w] = n
		k.list = append(k.list, w)
	}
	return n
}

// forwardWork is what an op does in forward; views do nothing.
func forwardWork(g *graph.Graph, op *graph.Op) work {
	w := op.Row().Work
	if w == graph.Free {
		return work{}
	}
	return work{flops: g.FLOPs(op), bytes: g.Moved(op), dtype: g.Tensors[g.Outputs(op)[0]].DType, mat: w == graph.MatMul || w == graph.Attention}
}

// costs are the nanoseconds of every kernel of forward and of backward on one card.
type costs struct {
	sheet             *gpu.Sheet
	forward, backward []int64
}

// costsOn times a program on a card by the roofline.
func (p *Program) costsOn(s *gpu.Sheet) *costs {
	if p.priced != nil && p.priced.sheet == s {
		return p.priced
	}
	price := func(k *kernels) []int64 {
		out := make([]int64, len(k.list))
		for i, w := range k.list {
			out[i] = s.OpTime(w.flops, w.bytes, w.dtype, w.mat)
		}
		return out
	}
	p.priced = &costs{sheet: s, forward: price(&p.kernels), backward: price(&p.tape.kernels)}
	return p.priced
}

// spend adds the time of a forward op: of the forward pass, or of a recompute.
func (m *machine) spend(i graph.OpID) {
	t := m.cost.forward[m.p.ops[i].kernel]
	if m.at.Phase == Forward {
		m.time.Forward += t
		return
	}
	m.time.Recompute += t
	if m.g.Blocks[m.g.Ops[i].Block].Layer < 0 {
		m.time.Fixed += t
	}
}

// transfer adds the time of a copy over the host link, on the compute stream as save_on_cpu does it.
func (m *machine) transfer(bytes int64) {
	if m.cost != nil {
		m.time.Transfer += m.cost.sheet.CopyTime(bytes)
	}
}
