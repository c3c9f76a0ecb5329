package model

import (
	"cmp"
	"slices"
	"strings"
)

// Registered are the graph's parameters in the order in which the class registers its modules, which is the order of
// model.parameters() and of an optimizer that takes one parameter at a time. Params has them in the order in which
// forward meets them.
func (g *Graph) Registered() []ParamID {
	order := make([]ParamID, len(g.Params))
	for i := range order {
		order[i] = ParamID(i)
	}
	c := classOf(g.Spec.Arch)
	if c == nil || len(c.modules) == 0 {
		return order
	}
	for i := 0; i < len(order); {
		layer, _, ok := cutLayer(g.Params[i].Name)
		n := i + 1
		for ok && n < len(order) && strings.HasPrefix(g.Params[n].Name, layer) {
			n++
		}
		slices.SortStableFunc(order[i:n], func(x, y ParamID) int { return cmp.Compare(c.place(g.Params[x].Name), c.place(g.Params[y].Name)) })
		i = n
	}
	return order
}

// place is where the module of a layer's parameter stands in the class's list.
func (c *class) place(name string) int {
	_, name, _ = cutLayer(name)
	return slices.IndexFunc(c.modules, func(m string) bool { return strings.HasPrefix(name, m) })
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
