package strategy

import (
	"context"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
)

// pricing is the cost of each option of a menu at every layer, as differences of whole-graph simulations in which all
// layers take the same option. Equal layers are priced on a short chain of them.
type pricing struct {
	graphs
	options []plan.Option
	chain   *memory.Program         // the priced chain: the model, or a few of its equal layers
	sheet   *gpu.Sheet              // the card of the times
	same    []int                   // by layer: the layer of the priced chain that stands for it
	blocks  [][]memory.BlockProfile // by option, by block of the priced chain
	shared  []shared
	always  int64     // bytes from before the layers that every option keeps
	late    []dropped // what forward frees in a layer or in the head unless it is kept
	// keep is the whole graph with every layer kept: what the rows of embedding and head are read from.
	keep *memory.Timeline
	ref  []memory.BlockProfile
	// kept is what all layers keep together if they keep everything.
	kept int64
	// entangled: layers hold their own output, so that costs are those of plans that treat all layers alike.
	entangled bool
	// capped: host memory is a cost as well.
	capped bool
}

// price simulates the graph once with all layers kept, and a short chain once an option.
// Options beyond those of Options, such as offloading ones, come as more; allows (nil: all) picks the menu from them.
func (g graphs) price(ctx context.Context, p *memory.Program, sheet *gpu.Sheet, allows func(*plan.Option) bool, more ...plan.Option) (*pricing, error) {
	q, same, err := short(p)
	if err != nil {
		return nil, err
	}
	options := Options(q.Graph, q.Graph.Layers/2)
	if q == p && p.Graph.Layers > shortLayers { // every option costs a walk of the whole graph
		options = partOptions(p.Graph, p.Graph.Layers/2)
	}
	options = append(options, more...)
	if allows != nil {
		options = slices.DeleteFunc(options, func(o plan.Option) bool { return !allows(&o) })
	}
	pr := &pricing{graphs: g, chain: q, sheet: sheet, same: same}
	var synchronous []plan.Option
	for i := range options {
		o := options[i]
		if windowed(o) { // priced as if synchronous: what is under way is staging
			o.Regions = append([]plan.Region(nil), o.Regions...)
			o.Regions[0].Window = 0
		}
		if _, err := lowerAll(q, o); err != nil {
			continue // not every layer has this part
		}
		pr.options = append(pr.options, options[i])
		synchronous = append(synchronous, o)
	}
	var several map[graph.StorageID]bool
	if pr.shared, pr.late, pr.always, several, err = sharedBy(q, pr.options); err != nil {
		return nil, err
	}
	for i, o := range synchronous {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, blocks, err := profileAll(q, o, sheet, several)
		if err != nil {
			return nil, err
		}
		if windowed(pr.options[i]) {
			overlap(blocks)
		}
		pr.blocks = append(pr.blocks, blocks)
	}
	if pr.keep, pr.ref, err = profileAll(p, plan.Keep, sheet, nil); err != nil {
		return nil, err
	}
	if pr.entangled, err = holdsOwnOutput(q); err != nil {
		return nil, err
	}
	for i := range p.Graph.Layers {
		pr.kept += pr.keeps(0, i) // option 0 is keep
	}
	for u := range pr.shared {
		if pr.shared[u].released(0) >= 0 {
			pr.kept += pr.shared[u].bytes
		}
	}
	return pr, nil
}

// lowerAll is the schedule of a program with the same option at every layer.
func lowerAll(p *memory.Program, o plan.Option) (*memory.Schedule, error) {
	return memory.Lower(p, &plan.Plan{Nodes: []plan.Node{{First: 0, Last: p.Graph.Layers - 1, Option: &o}}})
}

// profileAll simulates a program with the same option at every layer. several are storages that several layers may keep.
func profileAll(p *memory.Program, o plan.Option, sheet *gpu.Sheet, several map[graph.StorageID]bool) (*memory.Timeline, []memory.BlockProfile, error) {
	s, err := lowerAll(p, o)
	if err != nil {
		return nil, nil, err
	}
	return memory.ProfileShared(s, sheet, several)
}

// at is the cost of option k at a layer.
func (pr *pricing) at(k, layer int) *memory.BlockProfile {
	return &pr.blocks[k][pr.chain.Graph.LayerBlock(pr.same[layer])]
}

// keeps is the bytes that a layer's backward frees under option k, not counting the parameter gradients that it leaves: the
// bytes that the option keeps between forward and backward less the growth of activation gradients (BlockProfile.Carried).
// Shared storages, which the first keeper frees when all layers take the same option, are not part of it.
func (pr *pricing) keeps(k, layer int) int64 {
	b := pr.at(k, layer)
	s := b.BackwardBefore - b.BackwardAfter + b.Grad
	if pr.same[layer] == 0 {
		s -= pr.always
	}
	for u := range pr.shared {
		if pr.shared[u].released(k) == pr.same[layer] {
			s -= pr.shared[u].bytes
		}
	}
	return s
}

// choice is option k at a layer as a row of the flat problem; up and down lift forward and backward onto its base.
func (pr *pricing) choice(k, layer int, up, down int64) solve.Choice {
	b := pr.at(k, layer)
	s := pr.keeps(k, layer) + b.Carried
	return solve.Choice{
		Label:    pr.options[k].Name,
		Holds:    pr.held(k, layer),
		Save:     s,
		Linger:   b.ForwardAfter + pr.freed(pr.same[layer], k) - b.ForwardBefore - s, // counted to the end of forward, whichever layer keeps it
		Forward:  up + b.ForwardPeak - b.ForwardBefore,
		Backward: down + s + b.BackwardPeak - b.BackwardBefore,
		Time:     b.Recompute + b.Transfer,
	}
}

// held is the set of shared tensors that option k keeps at a layer.
func (pr *pricing) held(k, layer int) uint32 {
	var set uint32
	for u := range pr.shared {
		if pr.holds(u, layer, k) {
			set |= 1 << u
		}
	}
	return set
}

// problem turns the costs into a flat problem. Blocks before the first layer and after the last run the same way
// under every plan: the first belong to the base, the last are the head.
//
// With D_i = before_i − after_i what layer i's backward releases net of the gradients g_i that it leaves, telescoping gives
// before_i = after_0 + Σ_{j≤i} D_j, so with s_i = D_i + g_i and Base = after_0 − Σ g the rows of Problem hold exactly.
func (pr *pricing) problem(g *graph.Graph) *solve.Problem {
	first, last := layerBlocks(g)
	p := &solve.Problem{}
	for u := range pr.shared {
		p.Shared = append(p.Shared, pr.shared[u].bytes)
	}
	ref := pr.ref
	var grads int64
	kept := pr.kept
	for i := range g.Layers {
		b := &ref[g.LayerBlock(i)]
		blk := solve.Block{Grad: b.Grad + b.Carried}
		grads += blk.Grad
		kept += b.Carried
		p.Blocks = append(p.Blocks, blk)
	}
	for i := last + 1; i < len(g.Blocks); i++ {
		p.HeadGrad += ref[i].Grad
	}
	grads += p.HeadGrad
	forward := ref[first].ForwardBefore
	backward := ref[first].BackwardAfter - grads + pr.always
	p.Base = min(forward, backward)
	for i := range g.Layers {
		for k := range pr.options {
			p.Blocks[i].Choices = append(p.Blocks[i].Choices, pr.choice(k, i, forward-p.Base, backward-p.Base))
		}
	}
	for i := last + 1; i < len(g.Blocks); i++ {
		b := &ref[i]
		p.HeadForward = max(p.HeadForward, forward-p.Base+b.ForwardPeak-ref[last].ForwardAfter)
		p.HeadBackward = max(p.HeadBackward, b.BackwardPeak-p.Base-kept)
	}
	p.HeadForward += pr.freedByHead()
	p.Floor = pr.floor(g)
	return p
}

// floor is the peak that no choice changes: the optimizer's and the embedding's.
func (pr *pricing) floor(g *graph.Graph) int64 {
	first, _ := layerBlocks(g)
	n := pr.keep.Second.Peak[memory.Optimizer].Bytes
	for b := range first {
		n = max(n, pr.ref[b].ForwardPeak, pr.ref[b].BackwardPeak)
	}
	return n
}

// layerBlocks are the numbers of the first and last block that are layers.
func layerBlocks(g *graph.Graph) (first, last int) {
	first = -1
	for i, b := range g.Blocks {
		if b.Layer >= 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}

// prune drops options that are not allowed (nil: all are), and those that another allowed one beats or equals in
// every cost at every layer.
func (pr *pricing) prune(allowed func(k int) bool) {
	n := len(pr.options)
	layers := []int{}
	seen := map[int]bool{}
	for l, k := range pr.same {
		if !seen[k] {
			seen[k] = true
			layers = append(layers, l)
		}
	}
	beats := func(a, b int) bool {
		for _, l := range layers {
			x, y := pr.choice(a, l, 0, 0), pr.choice(b, l, 0, 0)
			if x.Holds&^y.Holds != 0 || x.Save > y.Save || x.Save+x.Linger > y.Save+y.Linger || x.Forward > y.Forward || x.Backward > y.Backward || x.Time > y.Time ||
				pr.capped && pr.at(a, l).Host > pr.at(b, l).Host {
				return false
			}
		}
		return true
	}
	drop := make([]bool, n)
	for k := range n {
		drop[k] = allowed != nil && !allowed(k)
	}
	for b := range n {
		for a := range n {
			if a != b && !drop[a] && !drop[b] && beats(a, b) {
				drop[b] = true
			}
		}
	}
	out := *pr
	out.options, out.blocks = nil, nil
	left := func(s shared) shared {
		holds := make([][]bool, len(s.holds))
		for l, h := range s.holds {
			for k := range h {
				if !drop[k] {
					holds[l] = append(holds[l], h[k])
				}
			}
		}
		return shared{s.bytes, holds}
	}
	out.shared, out.late = nil, nil
	for _, s := range pr.shared {
		out.shared = append(out.shared, left(s))
	}
	for _, d := range pr.late {
		out.late = append(out.late, dropped{left(d.shared), d.in, d.made, d.byKeep})
	}
	for k := range n {
		if !drop[k] {
			out.options = append(out.options, pr.options[k])
			out.blocks = append(out.blocks, pr.blocks[k])
		}
	}
	*pr = out
}
