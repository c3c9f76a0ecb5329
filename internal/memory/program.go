package memory

import (
	"ckptplan/internal/hugepage"
	"ckptplan/internal/model/graph"
)

// Program is a graph made ready to be walked (by one goroutine at a time): for every op what it allocates, what autograd
// keeps of it and which locals are freed after it; and the tape of its backward. It does not depend on a plan.
type Program struct {
	Graph *graph.Graph
	tape  *tape
	ops   []opEntry
	saves []saveEntry
	drops []graph.StorageID // storages in the order of the ops after which their locals go
	late  [2][]graph.StorageID
	// kernels are those of forward.
	kernels kernels
	static  []graph.StorageID // parameters, buffers and inputs

	priced *costs           // on the card asked for last
	labels map[int][]string // of the ops of a layer
	kin    *Programs        // of the same model
}

// layerLabels names the ops of a layer's span.
func (p *Program) layerLabels(layer int, span graph.Span) []string {
	l, ok := p.labels[layer]
	if !ok {
		if p.labels == nil {
			p.labels = map[int][]string{}
		}
		l = p.Graph.Labels(span.First, span.End)
		p.labels[layer] = l
	}
	return l
}

type opEntry struct {
	alloc, allocEnd int32 // storages born here
	save, saveEnd   int32 // range of saves
	drop, dropEnd   int32 // range of drops
	kernel          int32
	keepsOutput     bool // autograd keeps one of its outputs
}

// saveEntry is one tensor kept for backward. Static storages (parameters, inputs) cost nothing but still count where
// checkpointing counts packs.
type saveEntry struct {
	storage graph.StorageID
	bytes   int64 // of the tensor, as a copy of it to the host would need
	static  bool
	param   bool
	output  bool
	dense   bool // without gaps and overlap, as a copy to the host needs it
}

// Compile prepares a graph.
func Compile(g *graph.Graph) *Program {
	p := &Program{
		Graph: g, tape: compile(g), kernels: newKernels(),
		ops: hugepage.Make[opEntry](len(g.Ops))[:len(g.Ops)], saves: hugepage.Make[saveEntry](3 * len(g.Ops)),
	}
	for i := range g.Storages {
		s := &g.Storages[i]
		if s.Born == graph.None {
			p.static = append(p.static, graph.StorageID(i))
			continue
		}
		e := &p.ops[s.Born]
		if e.allocEnd == 0 {
			e.alloc = int32(i)
		}
		e.allocEnd = int32(i) + 1
		switch s.Drop {
		case graph.DropAfterForward, graph.DropAfterBackward:
			k := s.Drop - graph.DropAfterForward
			p.late[k] = append(p.late[k], graph.StorageID(i))
		default:
			p.ops[s.Drop].dropEnd++
		}
	}
	n := int32(0)
	for i := range p.ops {
		e := &p.ops[i]
		e.drop, n, e.dropEnd = n, n+e.dropEnd, n
	}
	p.drops = make([]graph.StorageID, n)
	for i := range g.Storages {
		if s := &g.Storages[i]; s.Born != graph.None && s.Drop < graph.DropAfterForward {
			e := &p.ops[s.Drop]
			p.drops[e.dropEnd] = graph.StorageID(i)
			e.dropEnd++
		}
	}
	for i := range g.Ops {
		e := &p.ops[i]
		e.kernel = p.kernels.of(forwardWork(g, &g.Ops[i]))
		e.save = int32(len(p.saves))
		g.Saved(&g.Ops[i], func(t graph.TensorID, output bool) {
			x := &g.Tensors[t]
			s := &g.Storages[x.Storage]
			p.saves = append(p.saves, saveEntry{
				storage: x.Storage, bytes: g.Bytes(t), static: s.Born == graph.None, param: s.Role == graph.Parameter, output: output, dense: graph.IsDense(x.Shape, x.Stride),
			})
			e.keepsOutput = e.keepsOutput || output
		})
		e.saveEnd = int32(len(p.saves))
	}
	return p
}
