package graph

import (
	"cmp"
	"slices"
	"strings"
)

// Registered are the graph's parameters in the order of the modules of a layer: the beginnings of their names, "" for any
// other. Without modules it is the order of forward.
//
// The parameters whose names begin with first, if it is not empty, come before all others.
func (g *Graph) Registered(first string, modules []string) []ParamID {
	order := make([]ParamID, len(g.Params))
	for i := range order {
		order[i] = ParamID(i)
	}
	place := func(p ParamID) int {
		_, name, _ := cutLayer(g.Params[p].Name)
		return slices.IndexFunc(modules, func(m string) bool { return strings.HasPrefix(name, m) })
	}
	for i := 0; i < len(order) && len(modules) > 0; {
		layer, _, ok := cutLayer(g.Params[i].Name)
		n := i + 1
		for ok && n < len(order) && strings.HasPrefix(g.Params[n].Name, layer) {
			n++
		}
		slices.SortStableFunc(order[i:n], func(x, y ParamID) int { return cmp.Compare(place(x), place(y)) })
		i = n
	}
	if first == "" {
		return order
	}
	begins := func(p ParamID) bool { return strings.HasPrefix(g.Params[p].Name, first) }
	head := slices.DeleteFunc(slices.Clone(order), func(p ParamID) bool { return !begins(p) })
	return append(head, slices.DeleteFunc(order, begins)...)
}

// cutLayer splits "model.layers.3.mlp.up_proj.weight" after "model.layers.3.".
func cutLayer(name string) (layer, rest string, ok bool) {
	at := 0
	for part := range strings.SplitSeq(name, ".") {
		at += len(part) + 1
		if part != "" && strings.Trim(part, "0123456789") == "" && at < len(name) {
			return name[:at], name[at:], true
		}
	}
	return "", name, false
}
