package certificate

import (
	"fmt"
	"maps"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// derive finds the cost of each option at every layer of a graph. It simulates the whole graph once per option, with that option at
// every layer, and reads the rows off what is alive between blocks. Let X be what is alive when the forward of the first
// layer starts, and Y what is alive when its backward has ended, less the gradients that all layers and the head have left
// by then: of parameters, and what those of activations have grown by on the way. Neither depends on the option. Then
//
//	base         = min(X, Y)
//	save_forward = alive at the end of the layer's forward − alive at its start
//	forward      = X − base + most alive in its forward − alive at its start
//	save         = alive at the start of the layer's backward − alive at its end + the gradients that it leaves
//	backward     = Y − base + save + most alive in its backward − alive at its start
//	time         = recomputation + transfers of the layer
//
// Sums of save_forward and save telescope to what is alive at the start of a layer's forward and backward, so a
// choice that takes the same option everywhere has the peak that plan.Certificate's rows say by construction. That a
// mixed choice has it too is a claim about the model; Check tests it on mixed plans.
//
// A tensor that is made before the layers and held for backward by some options at some layers would be counted in the
// save of the layer that frees it, the first that holds it, which depends on the choices of others. So it is taken
// out of that layer's save and listed by itself, once for each pattern of holders. One that every option holds at every
// layer is alive at every backward row: it is moved from the first layer's save to Y, unless the certificate lists it.
// One that only the first layer holds is its input and stays in its save; one that the blocks before the layers hold is
// part of Y. One that a layer makes, where the layers are not a chain, is listed if several can hold it and the first of
// them need not; otherwise the layer that frees it does not depend on the choice. A tensor that the caller holds until
// backward is done is part of Y, whichever block made it.
//
// Forward frees such a tensor after the last layer that reads it, or that has it in a local, unless any layer holds it. Rows
// cannot express that: they count it to the end of forward, which overstates by at most its bytes. Nor can they express
// whether a tensor that a block leaves in a local was saved: the next block's row counts it (memory.BlockProfile). Both are
// the chain's slack.
//
// The head's rows are those of the blocks behind the layers, above what the layers keep; the floor is the highest of the
// peaks of the blocks before the layers and of the optimizer step.
//
// With parametersOnly, as nested plans count, the gradients that a layer leaves are those of parameters, and its save is
// less what the others grow by.
func derive(p *memory.Program, options []plan.Option, sheet *gpu.Sheet, listed [][][]bool, parametersOnly bool) (*chain, [][][]bool, error) {
	g := p.Graph
	if g.Layers == 0 || len(options) == 0 {
		return nil, nil, fmt.Errorf("no layers or no options")
	}
	first := slices.IndexFunc(g.Blocks, func(b graph.Block) bool { return b.Layer >= 0 })
	behind := g.LayerBlock(g.Layers-1) + 1
	c := &chain{grads: make([]int64, g.Layers), menu: make([][]cost, g.Layers)}
	holders := map[graph.StorageID][][]bool{} // by storage: by layer, by option
	var x, y int64
	schedules := make([]*memory.Schedule, len(options))
	for k := range options {
		s, err := memory.Lower(p, everywhere(&options[k], g.Layers))
		if err != nil {
			return nil, nil, fmt.Errorf("option %s: %w", options[k].Name, err)
		}
		schedules[k] = s
		before := s.Keeps(0, g.Blocks[first].First) // alive until after the layers' backward
		for i := range g.Layers {
			for st := range s.Keeps(g.LayerOps(i)) {
				if store := &g.Storages[st]; store.Drop == graph.DropAfterBackward || store.Born >= g.Blocks[first].First && g.Chain || before[st] {
					continue
				}
				if holders[st] == nil {
					holders[st] = table(g.Layers, len(options))
				}
				holders[st][i][k] = true
			}
		}
	}
	several := map[graph.StorageID]bool{}
	for st, h := range holders {
		several[st] = g.Storages[st].Born >= g.Blocks[first].First && contested(h)
	}
	for k := range options {
		tl, blocks, err := memory.ProfileShared(schedules[k], sheet, several)
		if err != nil {
			return nil, nil, fmt.Errorf("option %s: %w", options[k].Name, err)
		}
		xk, yk := blocks[first].ForwardBefore, blocks[first].BackwardAfter
		for i := range blocks {
			if parametersOnly || g.Blocks[i].Layer < 0 {
				blocks[i].Carried = 0
			}
			if i >= first {
				yk -= blocks[i].Grad + blocks[i].Carried
			}
		}
		if k > 0 && (xk != x || yk != y) {
			return nil, nil, fmt.Errorf("option %s changes what is alive outside the layers by %d and %d bytes", options[k].Name, xk-x, yk-y)
		}
		x, y = xk, yk
		for i := range g.Layers {
			b := &blocks[g.LayerBlock(i)]
			save := b.BackwardBefore - b.BackwardAfter + b.Grad + b.Carried
			c.menu[i] = append(c.menu[i], cost{
				save: save, saveFwd: b.ForwardAfter - b.ForwardBefore, fwd: b.ForwardPeak - b.ForwardBefore, bwd: save + b.BackwardPeak - b.BackwardBefore,
				time: b.Recompute + b.Transfer, run: b.Forward, back: b.Backward,
			})
			c.grads[i] = b.Grad + b.Carried
			c.slackBwd = max(c.slackBwd, b.BackwardExcess)
		}
		if k == 0 {
			for _, b := range blocks {
				c.slack = max(c.slack, b.ForwardExcess)
			}
			c.outside(tl, blocks, first, behind)
		}
	}
	patterns, always := c.share(g, g.Blocks[first].First, behind, holders, listed)
	c.lift(x, y+always)
	return c, patterns, nil
}

// outside reads the rows of the blocks around the layers: absolute, what the layers keep already taken off.
func (c *chain) outside(tl *memory.Timeline, blocks []memory.BlockProfile, first, behind int) {
	var kept, keptFwd int64
	for i := range c.menu {
		kept += c.menu[i][0].save
		keptFwd += c.menu[i][0].saveFwd
	}
	for _, b := range blocks[behind:] {
		c.headFwd = max(c.headFwd, b.ForwardPeak-keptFwd)
		c.headBwd = max(c.headBwd, b.BackwardPeak-kept)
		c.headGrad += b.Grad
		c.headTime += b.Forward + b.Backward
	}
	c.floor = tl.Second.Peak[memory.Optimizer].Bytes
	for _, b := range blocks[:first] {
		c.floor = max(c.floor, b.ForwardPeak, b.BackwardPeak)
	}
}

// lift puts rows above the base: x and y are alive outside the layers in forward and in backward.
func (c *chain) lift(x, y int64) {
	c.x, c.y = x, y
	c.base = min(x, y)
	c.headFwd -= c.base
	c.headBwd -= c.base
	for i := range c.menu {
		for k := range c.menu[i] {
			c.menu[i][k].fwd += x - c.base
			c.menu[i][k].bwd += y - c.base
		}
	}
}

// share takes shared tensors out of the layers' saves and returns the holders of each, by layer and option, and the bytes
// that all options hold at all layers. Tensors made from op made on are the layers' own, unless contested.
func (c *chain) share(g *graph.Graph, made graph.OpID, behind int, holders map[graph.StorageID][][]bool, listed [][][]bool) (patterns [][][]bool, always int64) {
	same := func(a, b [][]bool) bool { return slices.EqualFunc(a, b, slices.Equal[[]bool]) }
	for _, st := range slices.Sorted(maps.Keys(holders)) {
		h, bytes := holders[st], g.Storages[st].Bytes
		ofLayer := g.Storages[st].Born >= made
		c.keepForward(g, behind, st, h, ofLayer)
		if ofLayer && !contested(h) {
			continue
		}
		all, onlyFirst := true, true
		for i := range h {
			all = all && !slices.Contains(h[i], false)
			onlyFirst = onlyFirst && (i == 0 || !slices.Contains(h[i], true))
		}
		switch {
		case onlyFirst:
		case all && !slices.ContainsFunc(listed, func(l [][]bool) bool { return same(l, h) }):
			always += bytes
		default:
			u := slices.IndexFunc(patterns, func(l [][]bool) bool { return same(l, h) })
			if u < 0 {
				u = len(patterns)
				patterns, c.shared = append(patterns, h), append(c.shared, 0)
			}
			c.shared[u] += bytes
		}
	}
	for k := range c.menu[0] {
		c.menu[0][k].release(always)
		for u, h := range patterns {
			released := false // with the first holder, when every layer takes this option
			for i := range c.menu {
				if !h[i][k] {
					continue
				}
				c.menu[i][k].holds |= 1 << u
				if !released {
					c.menu[i][k].release(c.shared[u])
					released = true
				}
			}
		}
	}
	c.headBwd += always // outside took it off with what option 0 keeps
	return patterns, always
}

// keepForward counts a tensor to the end of forward in the rows of options that do not hold it. A tensor that a layer made
// counts only if layers other than the one in which forward frees it can hold it, and none must.
func (c *chain) keepForward(g *graph.Graph, behind int, st graph.StorageID, h [][]bool, ofLayer bool) {
	drop, bytes := g.Storages[st].Drop, g.Storages[st].Bytes
	if drop < 0 || int(drop) >= len(g.Ops) {
		return
	}
	last := g.Layers // the layer in which forward frees it, or the head
	if int(g.Ops[drop].Block) < behind {
		last = 0
		for _, end := g.LayerOps(0); drop >= end; _, end = g.LayerOps(last) {
			last++
		}
	}
	others := false
	for i, ks := range h {
		if ofLayer && !slices.Contains(ks, false) {
			return
		}
		others = others || i != last && slices.Contains(ks, true)
	}
	if ofLayer && !others || last == 0 {
		return
	}
	c.slack += bytes
	if last == g.Layers {
		if !slices.ContainsFunc(h, func(ks []bool) bool { return ks[0] }) {
			c.headFwd += bytes
		}
		return
	}
	for k := range c.menu[last] {
		if !slices.ContainsFunc(h, func(ks []bool) bool { return ks[k] }) {
			c.menu[last][k].saveFwd += bytes
		}
	}
}

// contested is true if more than one layer can hold a tensor and the first of them need not.
func contested(h [][]bool) bool {
	first := -1
	for i, ks := range h {
		switch {
		case !slices.Contains(ks, true):
		case first < 0:
			first = i
		default:
			return slices.Contains(h[first], false)
		}
	}
	return false
}

// release takes bytes that are not a layer's own out of what it keeps.
func (o *cost) release(bytes int64) {
	o.save -= bytes
	o.bwd -= bytes
}

// table is a truth value, false, for every layer and option.
func table(layers, options int) [][]bool {
	out := make([][]bool, layers)
	for i := range out {
		out[i] = make([]bool, options)
	}
	return out
}

// everywhere is the plan that takes one option at every layer.
func everywhere(o *plan.Option, layers int) *plan.Plan {
	return &plan.Plan{Nodes: []plan.Node{{First: 0, Last: layers - 1, Option: o}}}
}

// mixed is the plan that takes the option choice[i] at layer i.
func mixed(options []plan.Option, choice []int) *plan.Plan {
	p := &plan.Plan{}
	for i, k := range choice {
		p.Nodes = append(p.Nodes, plan.Node{First: i, Last: i, Option: &options[k]})
	}
	return p
}

// choiceOf finds the options that a plan of leaves takes, by layer; layers without a node keep everything.
func choiceOf(p *plan.Plan, options []plan.Option, layers int) ([]int, error) {
	find := func(o *plan.Option) int {
		return slices.IndexFunc(options, func(x plan.Option) bool { return sameOption(&x, o) })
	}
	keep := find(&plan.Keep)
	choice := make([]int, layers)
	for i := range choice {
		choice[i] = keep
	}
	for _, n := range p.Nodes {
		if n.Segment {
			return nil, fmt.Errorf("layers %d to %d are one segment; plans of the class treat every layer on its own", n.First, n.Last)
		}
		k := find(n.Option)
		if k < 0 {
			return nil, fmt.Errorf("option %s of layers %d to %d is not in the menu", n.Option.Name, n.First, n.Last)
		}
		for i := n.First; i <= n.Last; i++ {
			choice[i] = k
		}
	}
	if i := slices.Index(choice, -1); i >= 0 {
		return nil, fmt.Errorf("layer %d keeps everything; the menu has no option %s", i, plan.Keep.Name)
	}
	return choice, nil
}

// sameOption compares what options do, not their names.
func sameOption(a, b *plan.Option) bool {
	return slices.EqualFunc(a.Regions, b.Regions, func(x, y plan.Region) bool {
		return x.Span == y.Span && x.Offload == y.Offload && slices.Equal(x.Cache, y.Cache)
	})
}
