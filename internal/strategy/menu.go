package strategy

import (
	"strings"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

// parts are the spans an option may checkpoint on their own, in the order of a layer's forward pass. They name module
// boundaries: a trainer can wrap each in torch.utils.checkpoint.
var parts = []string{"norm1", "core", "attn", "norm2", "act", "mlp"}

// Options enumerates the ways to treat one layer of a graph: keep, full, and every set of disjoint parts that the
// layer has.
func Options(g *model.Graph, layer int) []plan.Option {
	out := []plan.Option{plan.Keep, plan.Full}
	var spans []model.Span
	for _, name := range parts {
		if s, ok := g.Span(layer, name); ok {
			spans = append(spans, s)
		}
	}
	for set := 1; set < 1<<len(spans); set++ {
		if o, ok := option(spans, set); ok {
			out = append(out, o)
		}
	}
	return out
}

// option is the option that checkpoints the spans of a set, if they are disjoint.
func option(spans []model.Span, set int) (plan.Option, bool) {
	var o plan.Option
	var names []string
	var taken []model.Span
	for i, s := range spans {
		if set&(1<<i) == 0 {
			continue
		}
		for _, t := range taken {
			if s.First < t.End && t.First < s.End {
				return o, false
			}
		}
		taken = append(taken, s)
		names = append(names, s.Name)
		o.Regions = append(o.Regions, plan.Region{Span: s.Name})
	}
	o.Name = strings.Join(names, "+")
	return o, true
}

// pricing is what the menu's options cost at every layer of one graph, as differences of whole-graph simulations in
// which all layers take the same option.
type pricing struct {
	options []plan.Option
	blocks  [][]memory.BlockProfile // by option, by block
	whole   []*memory.Timeline      // by option
	shared  shared
}

// price simulates the graph once an option.
func price(p *memory.Program, sheet *gpu.Sheet, options []plan.Option) (*pricing, error) {
	pr := &pricing{}
	for i := range options {
		o := options[i]
		pl := &plan.Plan{Nodes: []plan.Node{{First: 0, Last: p.Graph.Layers - 1, Option: &o}}}
		s, err := memory.Lower(p, pl)
		if err != nil {
			return nil, err
		}
		tl, blocks, err := memory.Profile(s, sheet)
		if err != nil {
			return nil, err
		}
		pr.options = append(pr.options, o)
		pr.blocks = append(pr.blocks, blocks)
		pr.whole = append(pr.whole, tl)
	}
	var err error
	pr.shared, err = sharedBy(p, options)
	return pr, err
}

// keeps is what option k keeps of block i between its forward and its backward (s), without what is shared, which
// the first layer releases when all layers take the same option.
func (pr *pricing) keeps(k, i, first int) int64 {
	b := &pr.blocks[k][i]
	s := b.BackwardBefore - b.BackwardAfter + b.Grad
	if i == first && pr.shared.holds[k] {
		s -= pr.shared.bytes
	}
	return s
}

// problem turns the prices into a flat problem. Blocks before the first layer and after the last run the same way
// under every plan: the first belong to the base, the last are the head.
//
// With D_i = before_i − after_i what layer i's backward releases net of its gradients g_i, telescoping gives
// before_i = after_0 + Σ_{j≤i} D_j, so with s_i = D_i + g_i and Base = after_0 − Σ g the rows of Problem hold exactly.
func (pr *pricing) problem(g *model.Graph) *Problem {
	first, last := layerBlocks(g)
	p := &Problem{}
	ref := pr.blocks[0]
	var grads int64
	for b := first; b < len(g.Blocks); b++ {
		grads += ref[b].Grad
	}
	forward := ref[first].ForwardBefore
	backward := ref[first].BackwardAfter - grads
	p.Base = min(forward, backward)
	up, down := forward-p.Base, backward-p.Base

	for i := first; i <= last; i++ {
		blk := Block{Grad: ref[i].Grad}
		for k := range pr.options {
			b := &pr.blocks[k][i]
			s := pr.keeps(k, i, first)
			blk.Choices = append(blk.Choices, Choice{
				Label:    pr.options[k].Name,
				Save:     s,
				SaveFwd:  b.ForwardAfter - b.ForwardBefore,
				Forward:  up + b.ForwardPeak - b.ForwardBefore,
				Backward: down + s + b.BackwardPeak - b.BackwardBefore,
				Time:     b.Recompute + b.Transfer,
			})
		}
		p.Blocks = append(p.Blocks, blk)
	}
	head := Choice{Label: "head"}
	var held int64
	for i := first; i <= last; i++ {
		held += pr.keeps(0, i, first)
	}
	for i := last + 1; i < len(g.Blocks); i++ {
		b := &ref[i]
		head.Forward = max(head.Forward, up+b.ForwardPeak-ref[last].ForwardAfter)
		// Σ_{j>i} g_j of the head's later blocks is inside its peak
		head.Backward = max(head.Backward, b.BackwardPeak-p.Base-held)
		p.HeadGrad += b.Grad
	}
	p.Head = []Choice{head}
	for b := range first {
		p.Floor = max(p.Floor, ref[b].ForwardPeak, ref[b].BackwardPeak)
	}
	p.Floor = max(p.Floor, pr.whole[0].Second.Peak[memory.Optimizer].Bytes)
	return p
}

// layerBlocks are the numbers of the first and last block that are layers.
func layerBlocks(g *model.Graph) (first, last int) {
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

// prune drops options that another beats, or equals, in every price at every layer.
func (pr *pricing) prune(g *model.Graph) {
	first, last := layerBlocks(g)
	beats := func(a, b int) bool {
		for i := first; i <= last; i++ {
			x, y := &pr.blocks[a][i], &pr.blocks[b][i]
			sx, sy := pr.keeps(a, i, first), pr.keeps(b, i, first)
			if sx > sy || pr.shared.holds[a] && !pr.shared.holds[b] || x.ForwardAfter-x.ForwardBefore > y.ForwardAfter-y.ForwardBefore ||
				x.ForwardPeak-x.ForwardBefore > y.ForwardPeak-y.ForwardBefore ||
				sx+x.BackwardPeak-x.BackwardBefore > sy+y.BackwardPeak-y.BackwardBefore ||
				x.Recompute+x.Transfer > y.Recompute+y.Transfer {
				return false
			}
		}
		return true
	}
	n := len(pr.options)
	drop := make([]bool, n)
	for b := range n {
		for a := range n {
			if a != b && !drop[a] && !drop[b] && beats(a, b) {
				drop[b] = true
			}
		}
	}
	out := &pricing{shared: shared{bytes: pr.shared.bytes}}
	for k := range n {
		if !drop[k] {
			out.shared.holds = append(out.shared.holds, pr.shared.holds[k])
			out.options = append(out.options, pr.options[k])
			out.blocks = append(out.blocks, pr.blocks[k])
			out.whole = append(out.whole, pr.whole[k])
		}
	}
	*pr = *out
}
