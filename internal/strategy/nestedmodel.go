package strategy

import (
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/menu"
	"ckptplan/internal/strategy/solve"
)

// nestedModel is a model's layers as a chain for SolveNested.
//
// Costs are those of the flat problem, with one difference: the input of a layer is counted as long as the layer's saved
// set, even for options that do not need it. Inside a checkpoint that is exact; outside, the chain counts one boundary
// tensor too many for each such layer. The simulator decides: the search walks the chain's frontier to the fastest plan that
// it accepts.
type nestedModel struct {
	chain   *solve.Chain
	options []int // the option of the menu behind each option of a stage
	menu    []plan.Option
}

// nestedModel builds the chain from parts-only options: what a nested checkpoint caches has no simulation yet.
func (pr *space) nestedModel(p *memory.Program) (*nestedModel, error) {
	g := p.Graph
	first, last := g.LayerBlock(0), g.LayerBlock(g.Layers-1)
	a := boundaries(p)
	ref := pr.Base
	var grads int64
	for b := first; b < len(g.Blocks); b++ {
		grads += ref[b].Grad
	}
	forward, backward := ref[first].ForwardBefore, ref[first].BackwardAfter-grads+pr.Always+pr.SharedBytes()
	base := max(0, min(forward-a[0], backward-a[0]-a[len(a)-1]))
	held := inputsHeld(pr)
	c := &solve.Chain{Base: base, Input: a[0], Floor: pr.Floor()}
	ids, stops, err := pr.nestedOptions()
	if err != nil {
		return nil, err
	}
	m := &nestedModel{chain: c, menu: pr.Options, options: ids}
	// A layer's forward runs first above what forward starts with, and again inside backward, above the checkpoint's input
	// and what stays to the end of backward (logits that the caller holds); autocast's casts may all be alive in the first.
	casts := pr.casts(g)
	lift := max(forward+casts, backward-a[len(a)-1]+a[0])
	for i := range g.Layers {
		st := solve.Stage{Type: 1 + pr.Same[i], Output: a[i+1], Gradient: a[i+1], Grad: ref[first+i].Grad}
		for n, k := range ids {
			b := pr.At(k, i)
			s := pr.Saved(k, i)
			// inside a checkpoint the input is alive whether or not the option needs it
			saved, operands := s+a[i+1], base+s+a[i+1]
			if held[k][pr.Same[i]] {
				saved, operands = max(0, saved-a[i]), base+max(a[i], saved)
			}
			st.Options = append(st.Options, solve.StageOption{
				Label: pr.Options[k].Name, Saved: saved,
				Forward:          b.Forward,
				EarlyStop:        stops[n][pr.Same[i]],
				Backward:         b.Backward + b.Recompute + b.Transfer,
				ForwardOverhead:  max(0, lift+b.ForwardPeak-b.ForwardBefore-operands),
				BackwardOverhead: max(0, backward+s+b.BackwardPeak-b.BackwardBefore-operands-a[i+1]),
			})
		}
		c.Stages = append(c.Stages, st)
	}
	loss := solve.Choice{Label: "head"}
	for i := last + 1; i < len(g.Blocks); i++ {
		b := &ref[i]
		loss.Forward = max(loss.Forward, forward+casts+pr.FreedByHead()+b.ForwardPeak-ref[last].ForwardAfter-base-a[len(a)-1])
		loss.Backward = max(loss.Backward, b.BackwardPeak-pr.AllKept+pr.SharedBytes()-base-a[len(a)-1])
		loss.Time += b.Forward + b.Backward
		c.LossGrad += b.Grad
	}
	c.Loss = []solve.Choice{loss}
	return m, nil
}

// kept is the time of a micro-batch that recomputes nothing, by the chain.
func (m *nestedModel) kept() int64 {
	keep := m.keep()
	sum := m.chain.Loss[0].Time
	for i := range m.chain.Stages {
		o := &m.chain.Stages[i].Options[keep]
		sum += o.Forward + o.Backward
	}
	return sum
}

// nestedOptions are the options that the layers of a nested plan choose among, those of parts of a layer, with their
// earlyStops.
func (pr *space) nestedOptions() (ids []int, stops [][]int64, err error) {
	for k, o := range pr.Options {
		if slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return r.Span == "layer" || len(r.Cache) > 0 }) {
			continue
		}
		s, err := pr.EarlyStops(k)
		if err != nil {
			return nil, nil, err
		}
		ids, stops = append(ids, k), append(stops, s)
	}
	return ids, stops, nil
}

// inputsHeld says which options keep their layer's input, by option and layer of the priced chain.
func inputsHeld(pr *space) [][]bool {
	g := pr.Chain.Graph
	first := g.LayerBlock(0)
	out := make([][]bool, len(pr.Options))
	for k := range pr.Options {
		out[k] = make([]bool, g.Layers)
		s, err := menu.Uniform(pr.Chain, pr.Options[k])
		if err != nil {
			continue
		}
		for l := range g.Layers {
			b, prev := g.Blocks[first+l], g.Blocks[first+l-1]
			for st := range s.Keeps(b.First, b.End) {
				if born := g.Storages[st].Born; born >= prev.First && born < prev.End && (l > 0 || holdsHidden(g, b, st)) {
					out[k][l] = true
				}
			}
		}
	}
	return out
}

// holdsHidden is true if a block reads a storage as its residual stream.
func holdsHidden(g *graph.Graph, b graph.Block, st graph.StorageID) bool {
	for i := b.First; i < b.End; i++ {
		for _, t := range g.Inputs(&g.Ops[i]) {
			if g.Tensors[t].Storage == st && isHidden(g, t) {
				return true
			}
		}
	}
	return false
}

// casts is what lives to the end of forward whatever the options keep, of all layers: autocast's weight copies. The most
// of them are not part of what a layer keeps when it is recomputed as a whole.
func (pr *space) casts(g *graph.Graph) int64 {
	var sum int64
	for i := range g.Layers {
		var most int64
		for k, o := range pr.Options {
			if slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return len(r.Cache) > 0 || r.Offload != "" }) {
				continue
			}
			most = max(most, pr.Lingers(k, i))
		}
		sum += most
	}
	return sum
}

// boundaries are the bytes of the tensors between layers: of layer 0's input to the last layer's output.
func boundaries(p *memory.Program) []int64 {
	g := p.Graph
	out := make([]int64, g.Layers+1)
	first, last := g.LayerBlock(0), g.LayerBlock(g.Layers-1)
	for b := first; b <= last+1 && b < len(g.Blocks); b++ {
		seen := map[graph.StorageID]bool{}
		prev := g.Blocks[b-1]
		for i := g.Blocks[b].First; i < g.Blocks[b].End; i++ {
			for _, t := range g.Inputs(&g.Ops[i]) {
				st := g.Tensors[t].Storage
				born := g.Storages[st].Born
				if born < prev.First || born >= prev.End || seen[st] {
					continue
				}
				if b == first && !isHidden(g, t) {
					continue // masks, cos and sin also come from the embedding block
				}
				seen[st] = true
				out[b-first] += g.Storages[st].Bytes
			}
		}
	}
	return out
}

// isHidden tells the residual stream from what else the embedding block makes: it requires grad, or would if the
// embedding were trained, and is as wide as the model.
func isHidden(g *graph.Graph, t graph.TensorID) bool {
	x := &g.Tensors[t]
	return x.Grad || x.Shape.At(-1) == g.Step.Hidden && x.Shape.N == 3
}

// plan turns a solution's nodes into a plan.
func (m *nestedModel) plan(nodes []solve.NestedNode) *plan.Plan {
	return &plan.Plan{Strategy: "optimal", Nodes: m.nodes(nodes)}
}

func (m *nestedModel) nodes(ns []solve.NestedNode) []plan.Node {
	var out []plan.Node
	leaf := func(l int, o plan.Option) {
		if len(o.Regions) == 0 {
			return
		}
		if n := len(out); n > 0 && !out[n-1].Segment && out[n-1].Last == l-1 && out[n-1].Option.Name == o.Name {
			out[n-1].Last = l
			return
		}
		out = append(out, plan.Node{First: l, Last: l, Option: &o})
	}
	for _, n := range ns {
		if n.First >= len(m.chain.Stages) {
			continue // the loss
		}
		if n.Kind == solve.Keep {
			leaf(n.First, m.menu[m.options[n.Option]])
			continue
		}
		inner := m.nodes(n.Inner)
		if n.First == n.Last && len(inner) == 0 {
			leaf(n.First, plan.Full)
			continue
		}
		out = append(out, plan.Node{First: n.First, Last: n.Last, Segment: true, Inner: inner})
	}
	return out
}
