package report

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/plan"
)

// spanWords are the parts of a layer in words.
var spanWords = map[string]string{
	"layer": "all", "attn": "attention", "core": "attention core", "mlp": "MLP", "act": "activation", "norm1": "first norm", "norm2": "second norm",
}

// run is consecutive layers that a plan treats alike.
type run struct {
	first, last int
	option      string // its short name
	words       string // what is done, in words
	keeps       bool   // nothing is recomputed or offloaded
}

// layers is "layers 0-11" or "layer 3".
func (r run) layers() string {
	if r.first == r.last {
		return fmt.Sprintf("layer %d", r.first)
	}
	return fmt.Sprintf("layers %d-%d", r.first, r.last)
}

// runs cuts the layers of a model into runs, those that keep everything included.
func runs(p *plan.Plan, layers int) []run {
	var out []run
	add := func(r run) {
		if n := len(out); n > 0 && out[n-1].words == r.words && !strings.Contains(r.words, "together") {
			out[n-1].last = r.last
			return
		}
		out = append(out, r)
	}
	keep := func(first, last int) {
		if first <= last {
			add(run{first, last, "keep", "keep all", true})
		}
	}
	next := 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		keep(next, n.First-1)
		option, words := treatment(n)
		add(run{n.First, n.Last, option, words, words == "keep all"})
		next = n.Last + 1
	}
	keep(next, layers-1)
	return out
}

// treatment is what a node does with its layers.
func treatment(n *plan.Node) (option, words string) {
	if n.Segment {
		words = "recompute together"
		var inner []string
		for i := range n.Inner {
			in := &n.Inner[i]
			_, w := treatment(in)
			if strings.HasPrefix(w, "recompute ") {
				w = strings.TrimPrefix(w, "recompute ") + " again"
			}
			inner = append(inner, fmt.Sprintf("%s in %d-%d", w, in.First, in.Last))
		}
		if len(inner) > 0 {
			words += ", inside " + strings.Join(inner, ", ")
		}
		return "segment", words
	}
	if n.Option == nil || len(n.Option.Regions) == 0 {
		return "keep", "keep all"
	}
	return n.Option.Name, optionWords(n.Option)
}

// optionWords are an option's regions: "recompute attention core + MLP".
func optionWords(o *plan.Option) string {
	var recompute, offload, other []string
	for _, r := range o.Regions {
		span := r.Span
		if w, ok := spanWords[span]; ok {
			span = w
		}
		switch r.Offload {
		case "saved":
			offload = append(offload, span)
			continue
		case "inputs":
			other = append(other, "inputs on the host")
		}
		if len(r.Cache) > 0 {
			other = append(other, "but keep "+strings.Join(r.Cache, ", "))
		}
		recompute = append(recompute, span)
	}
	var parts []string
	if len(recompute) > 0 {
		parts = append(parts, "recompute "+strings.Join(recompute, " + "))
	}
	if len(offload) > 0 {
		parts = append(parts, "offload "+strings.Join(offload, " + "))
	}
	if len(parts) == 0 {
		return "keep all"
	}
	return strings.Join(append(parts, slices.Compact(other)...), ", ")
}

// planWords is a plan in one line: "recompute all in layers 0-11, recompute MLP in layers 12-23".
func planWords(p *plan.Plan, layers int) string {
	var parts []string
	for _, r := range runs(p, layers) {
		if !r.keeps {
			parts = append(parts, r.words+" in "+r.layers())
		}
	}
	const shown = 3
	switch n := len(parts); {
	case n == 0:
		return "keep everything"
	case n > shown:
		return fmt.Sprintf("%s and %d more runs of layers", strings.Join(parts[:shown], ", "), n-shown)
	}
	return strings.Join(parts, ", ")
}
