package graph

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Labels names the ops first…end−1 of one layer, as plans and people do: a matrix product or norm by the module whose
// weight it reads ("q_proj", "c_fc", "input_layernorm"), attention kernels as "attention", any other op by its ATen
// name. The second and later ops of the same name carry a number: "bmm.2".
func (g *Graph) Labels(first, end OpID) []string {
	out := make([]string, end-first)
	seen := map[string]int{}
	for i := first; i < end; i++ {
		name := g.plainLabel(i)
		seen[name]++
		if n := seen[name]; n > 1 {
			name += "." + strconv.Itoa(n)
		}
		out[i-first] = name
	}
	return out
}

func (g *Graph) plainLabel(i OpID) string {
	op := &g.Ops[i]
	row := op.Row()
	if row.Label != "" {
		return row.Label
	}
	if row.Work == Free || row.Transparent { // of a weight, too: under autocast a module's name is its product's
		return strings.TrimPrefix(row.Aten, "aten.")
	}
	for _, t := range g.Inputs(op) {
		if p := g.source(t); p >= 0 {
			parts := strings.Split(g.Params[p].Name, ".")
			if len(parts) > 1 {
				return parts[len(parts)-2]
			}
			return parts[0]
		}
	}
	return strings.TrimPrefix(row.Aten, "aten.")
}

// source is the parameter that a tensor is a view or a cast of, or None. A view of a frozen parameter has no node.
func (g *Graph) source(t TensorID) ParamID {
	for {
		x := &g.Tensors[t]
		switch {
		case x.Param >= 0:
			return x.Param
		case g.Storages[x.Storage].Role == Parameter:
			p, ok := slices.BinarySearchFunc(g.Params, x.Storage, func(p Param, s StorageID) int { return cmp.Compare(g.Tensors[p.Tensor].Storage, s) })
			if !ok {
				return None
			}
			return ParamID(p)
		case x.Producer < 0:
			return None
		}
		op := &g.Ops[x.Producer]
		if op.Row().Work != Free && !op.Row().Transparent {
			return None
		}
		t = g.Args[op.In]
	}
}

// Ordinal is the op's place among the ops of the same ATen name between first and itself, from 0: how a selective
// checkpoint policy, which sees one call after the other, recognises it.
func (g *Graph) Ordinal(first, i OpID) int {
	n := 0
	for j := first; j < i; j++ {
		if g.Aten(j) == g.Aten(i) {
			n++
		}
	}
	return n
}

// Aten is the name of op i's ATen call: a plain op's stands with what it makes, and an op that writes into its input has
// an underscore.
func (g *Graph) Aten(i OpID) string {
	op := &g.Ops[i]
	name := op.Row().Aten
	if op.Row().Work == Free {
		return name
	}
	switch made := g.StorageOf(g.Outputs(op)[0]); {
	case op.Kind == OpPlain:
		return made.Name
	case made.Born != i && !strings.HasSuffix(name, "_"):
		return name + "_"
	}
	return name
}
