package study

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

// Stretch is consecutive layers that a plan treats alike.
type Stretch struct {
	First, Last int
	Depth       int    // segments around it
	Option      string // its short name
	Words       string // what is done, in words
	keeps       bool   // nothing is recomputed or offloaded
	segment     bool
}

// Tree cuts the layers of a model into runs, those that keep everything included. What is inside a segment follows it.
func Tree(p *plan.Plan, layers int) []Stretch {
	return within(p.Nodes, 0, layers-1, 0, nil)
}

// within appends the runs of the layers first to last, which depth segments are around.
func within(nodes []plan.Node, first, last, depth int, out []Stretch) []Stretch {
	start := len(out)
	add := func(r Stretch) {
		if n := len(out); n > start && !r.segment && out[n-1].Words == r.Words && out[n-1].Depth == depth {
			out[n-1].Last = r.Last
			return
		}
		out = append(out, r)
	}
	again := ""
	if depth > 0 {
		again = " once more"
	}
	keep := func(first, last int) {
		r := Stretch{First: first, Last: last, Depth: depth, Option: "keep", Words: "keep all", keeps: depth == 0}
		if depth > 0 {
			r.Words = "keep all of the second run"
		}
		if first <= last {
			add(r)
		}
	}
	next := first
	for i := range nodes {
		n := &nodes[i]
		keep(next, n.First-1)
		next = n.Last + 1
		switch {
		case n.Segment:
			add(Stretch{First: n.First, Last: n.Last, Depth: depth, Option: "segment", Words: "recompute together" + again, segment: true})
			if len(n.Inner) > 0 {
				out = within(n.Inner, n.First, n.Last, depth+1, out)
			}
		case n.Option == nil || len(n.Option.Regions) == 0:
			keep(n.First, n.Last)
		default:
			add(Stretch{First: n.First, Last: n.Last, Depth: depth, Option: n.Option.Name, Words: optionWords(n.Option) + again})
		}
	}
	keep(next, last)
	return out
}

// runs are the runs outside segments.
func runs(p *plan.Plan, layers int) []Stretch {
	return slices.DeleteFunc(Tree(p, layers), func(r Stretch) bool { return r.Depth > 0 })
}

// mostForwards is the most often that a layer runs forward as a whole in a step.
func mostForwards(nodes []plan.Node) int {
	most := 1
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Segment:
			most = max(most, 1+mostForwards(n.Inner))
		case n.Option != nil && slices.ContainsFunc(n.Option.Regions, func(r plan.Region) bool { return r.Span == "layer" && r.Offload != "saved" }):
			most = max(most, 2)
		}
	}
	return most
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

// PlanWords is a plan in one line: "recompute all in layers 0-11, recompute MLP in layers 12-23".
func PlanWords(p *plan.Plan, layers int) string {
	var order []string
	groups := map[string][]Stretch{}
	for _, r := range runs(p, layers) {
		if r.keeps {
			continue
		}
		if groups[r.Words] == nil {
			order = append(order, r.Words)
		}
		groups[r.Words] = append(groups[r.Words], r)
	}
	var parts []string
	for _, words := range order {
		parts = append(parts, groupWords(words, groups[words], p))
	}
	const shown = 3
	switch n := len(parts); {
	case n == 0:
		return "keep everything"
	case n > shown:
		noun := "treatments"
		if n-shown == 1 {
			noun = "treatment"
		}
		return fmt.Sprintf("%s and %d other %s", strings.Join(parts[:shown], ", "), n-shown, noun)
	}
	return strings.Join(parts, ", ")
}

// groupWords are runs that are treated alike, in words.
func groupWords(words string, rs []Stretch, p *plan.Plan) string {
	var list []int
	least, most := rs[0].Last-rs[0].First+1, 0
	for _, r := range rs {
		size := r.Last - r.First + 1
		least, most = min(least, size), max(most, size)
		for l := r.First; l <= r.Last; l++ {
			list = append(list, l)
		}
	}
	where := "layers " + strings.ReplaceAll(plan.FormatLayers(list), ",", ", ")
	switch {
	case len(list) == 1:
		where = "layer " + fmt.Sprint(list[0])
	case strings.Count(where, ",") > 5:
		where = fmt.Sprintf("%d layers from %d to %d", len(list), list[0], list[len(list)-1])
	}
	if !rs[0].segment {
		return words + " in " + where
	}
	size := fmt.Sprint(least)
	if least < most {
		size = fmt.Sprintf("%d to %d", least, most)
	}
	noun := "segments"
	if len(rs) == 1 {
		noun = "segment"
	}
	text := fmt.Sprintf("recompute %d %s of %s layers in %s", len(rs), noun, size, where)
	if slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Segment && len(n.Inner) > 0 }) {
		text += ", with checkpoints inside"
	}
	return text
}
