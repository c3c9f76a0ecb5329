package menu

import (
	"slices"
	"strings"

	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// parts are the spans an option may checkpoint on their own, in the order of a layer's forward pass. They name module
// boundaries: a trainer can wrap each in torch.utils.checkpoint.
var parts = []string{"norm1", "core", "attn", "norm2", "act", "mlp"}

// maxCached bounds the ops of one layer that an option may cache: beyond it only the first are tried, since every
// set of them is an option.
const maxCached = 8

// Options enumerates the ways to treat one layer: keep, full, every set of disjoint parts that the layer has, and the
// whole layer with every set of its matrix products and attention kernels cached.
func Options(g *graph.Graph, layer int) []plan.Option {
	return append(partOptions(g, layer), cacheOptions(g, layer)...)
}

func partOptions(g *graph.Graph, layer int) []plan.Option {
	out := []plan.Option{plan.Keep, plan.Full}
	var spans []graph.Span
	for _, name := range parts {
		if s, ok := g.Span(layer, name); ok {
			spans = append(spans, s)
		}
	}
	for set := 1; set < 1<<len(spans); set++ {
		if o, ok := disjoint(spans, set); ok {
			out = append(out, o)
		}
	}
	return out
}

// disjoint is the option that checkpoints the spans of a set, if they do not overlap.
func disjoint(spans []graph.Span, set int) (plan.Option, bool) {
	var o plan.Option
	var names []string
	var taken []graph.Span
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

// cacheOptions are the whole layer under one checkpoint whose policy saves the outputs of some of the layer's heavy
// ops: those whose recompute costs more than reading and writing their output, and whose output nothing changes.
func cacheOptions(g *graph.Graph, layer int) []plan.Option {
	span, ok := g.Span(layer, "layer")
	if !ok {
		return nil
	}
	var heavy []string
	for i, name := range g.Labels(span.First, span.End) {
		op := &g.Ops[int(span.First)+i]
		w := op.Row().Work
		if (w == graph.MatMul || w == graph.Attention) && g.Uncachable(span.First+graph.OpID(i)) == "" && !handedOn(g, span, op) {
			heavy = append(heavy, name)
		}
	}
	if len(heavy) > maxCached {
		heavy = heavy[:maxCached]
	}
	var out []plan.Option
	for set := 1; set < 1<<len(heavy); set++ {
		var cache []string
		for i, name := range heavy {
			if set&(1<<i) != 0 {
				cache = append(cache, name)
			}
		}
		out = append(out, plan.Option{
			Name:    "full, cached " + strings.Join(cache, "+"),
			Regions: []plan.Region{{Span: "layer", Cache: cache}},
		})
	}
	return out
}

// handedOn is true if no other op of the layer reads an op's output, apart from views: it is the layer's output, which
// no recompute of the layer needs and the next layer holds if it needs it.
func handedOn(g *graph.Graph, layer graph.Span, op *graph.Op) bool {
	on := func(st graph.StorageID) func(graph.TensorID) bool {
		return func(t graph.TensorID) bool { return g.Tensors[t].Storage == st }
	}
	for _, t := range g.Outputs(op) {
		st := g.Tensors[t].Storage
		for i := layer.First; i < layer.End; i++ {
			o := &g.Ops[i]
			view := slices.ContainsFunc(g.Outputs(o), on(st))
			if o != op && !view && slices.ContainsFunc(g.Inputs(o), on(st)) {
				return false
			}
		}
	}
	return true
}
