package certificate

import (
	"fmt"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// deriveNest derives the rows of plan.CertifiedChain from derive's, to which the whole layer's checkpoint is added as an
// option (segments keep what it keeps). Let X and Y be what is alive outside the layers in forward and in backward, all
// shared tensors counted in Y; q, p, s and f an option's most in forward and in backward above the layer's start, its
// save and its save_forward; a the bytes of the tensors between layers. Then
//
//	base              = min(X − a_0, Y − a_0 − a_n), at least 0
//	saved             = s + a_i, less the layer's input if the option holds it: a chain counts that apart
//	forward_overhead  = max(X + Σ max(f − s), Y − a_n + a_0) + q − operands
//	backward_overhead = Y + s + p − operands − gradient
//
// where operands are base, input and saved set, and the sum over layers of max(f − s) over options is what autocast's
// casts hold until forward ends. A layer runs first above X, and again above Y with the checkpoint's input: the row takes
// the higher one.
// early_stop = forward + recomputation inside the layer − recomputation when every layer is a checkpoint of its own
// with the option inside.
func deriveNest(p *memory.Program, options []plan.Option, sheet *gpu.Sheet) (*nest, error) {
	g := p.Graph
	c, _, err := derive(p, append(slices.Clone(options), plan.Full), sheet, nil, true)
	if err != nil {
		return nil, err
	}
	first := slices.IndexFunc(g.Blocks, func(b graph.Block) bool { return b.Layer >= 0 })
	a := between(g, first)
	end := a[len(a)-1]
	x, y := c.x, c.y
	for _, bytes := range c.shared {
		y += bytes
	}
	n := &nest{base: max(0, min(x-a[0], y-a[0]-end)), input: a[0], floor: c.floor, stages: make([]stage, g.Layers)}
	var casts int64
	for _, menu := range c.menu {
		var most int64
		for k := range menu {
			most = max(most, menu[k].saveFwd-menu[k].save)
		}
		casts += most
	}
	lift := max(x+casts, y-end+a[0])
	for k := range options {
		holds, stops, err := inLayer(p, &options[k], sheet, first)
		if err != nil {
			return nil, fmt.Errorf("option %s: %w", options[k].Name, err)
		}
		for i := range n.stages {
			o := &c.menu[i][k]
			q, b := o.fwd-(c.x-c.base), o.bwd-o.save-(c.y-c.base)
			saved, operands := o.save+a[i+1], n.base+o.save+a[i+1]
			if holds[i] {
				saved = max(0, saved-a[i])
				operands = n.base + max(a[i], o.save+a[i+1])
			}
			n.stages[i].ways = append(n.stages[i].ways, way{
				saved: saved, fwdOver: max(0, lift+q-operands), bwdOver: max(0, y+o.save+b-operands-a[i+1]),
				forward: o.run, backward: o.back + o.time, early: o.run + o.time - stops[i],
			})
		}
	}
	for i := range n.stages {
		s := &n.stages[i]
		s.out, s.grad, s.params = a[i+1], a[i+1], c.grads[i]
	}
	n.head.fwd = max(0, c.headFwd+c.base+casts-n.base-end)
	n.head.bwd = max(0, c.headBwd+c.base+y-c.y-n.base-end)
	n.head.grad, n.head.time = c.headGrad, c.headTime
	return n, nil
}

// between are the bytes of the tensors between layers: the part of the residual stream that the first layer reads, and for
// each other layer and the head, the tensors that they read of the block before.
func between(g *graph.Graph, first int) []int64 {
	out := make([]int64, g.Layers+1)
	for i := range out {
		if first+i >= len(g.Blocks) {
			break
		}
		for st := range handedOver(g, first+i, i == 0) {
			out[i] += g.Storages[st].Bytes
		}
	}
	return out
}

// handedOver are the storages that a block reads of the block before it; with stream, those of the residual stream
// alone: tensors that require a gradient, or of three dimensions and as wide as the model.
func handedOver(g *graph.Graph, block int, stream bool) map[graph.StorageID]bool {
	out := map[graph.StorageID]bool{}
	b, before := &g.Blocks[block], &g.Blocks[block-1]
	for i := b.First; i < b.End; i++ {
		for _, t := range g.Inputs(&g.Ops[i]) {
			x := &g.Tensors[t]
			born := g.Storages[x.Storage].Born
			if born < before.First || born >= before.End {
				continue
			}
			if !stream || x.Grad || x.Shape.N == 3 && x.Shape.At(-1) == g.Step.Hidden {
				out[x.Storage] = true
			}
		}
	}
	return out
}

// inLayer says at which layers an option holds the layer's input for backward, and how long a recompute takes, layer by
// layer, if every layer is a checkpoint with the option inside.
func inLayer(p *memory.Program, o *plan.Option, sheet *gpu.Sheet, first int) (holds []bool, again []int64, err error) {
	g := p.Graph
	s, err := memory.Lower(p, everywhere(o, g.Layers))
	if err != nil {
		return nil, nil, err
	}
	wrapped := &plan.Plan{}
	for l := range g.Layers {
		wrapped.Nodes = append(wrapped.Nodes, plan.Node{First: l, Last: l, Segment: true, Inner: []plan.Node{{First: l, Last: l, Option: o}}})
	}
	w, err := memory.Lower(p, wrapped)
	if err != nil {
		return nil, nil, err
	}
	_, blocks, err := memory.Profile(w, sheet)
	if err != nil {
		return nil, nil, err
	}
	for l := range g.Layers {
		b := &g.Blocks[first+l]
		handed := handedOver(g, first+l, l == 0)
		held := false
		for st := range s.Keeps(b.First, b.End) {
			held = held || handed[st] || l > 0 && bornIn(g, st, first+l-1)
		}
		holds = append(holds, held)
		again = append(again, blocks[first+l].Recompute)
	}
	return holds, again, nil
}

// bornIn is true if a block makes a storage.
func bornIn(g *graph.Graph, st graph.StorageID, block int) bool {
	born := g.Storages[st].Born
	return born >= g.Blocks[block].First && born < g.Blocks[block].End
}
