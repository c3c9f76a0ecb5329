package graph

import (
	"fmt"
	"slices"
)

// Uncachable says why a selective checkpoint cannot keep what op i makes, or nothing if it can: the policy's mode holds
// the call's result, so that a view of another op's tensor, or a result written into one, would keep that whole tensor
// beside a recomputed one; and it compares versions when the recompute asks for the result, so that one that another op
// of the layer has changed in place is an error. Source: torch/utils/checkpoint.py, _CachingTorchDispatchMode and
// _VersionWrapper.
func (g *Graph) Uncachable(i OpID) string {
	op := &g.Ops[i]
	outs := g.Outputs(op)
	if !slices.ContainsFunc(outs, func(t TensorID) bool { return g.StorageOf(t).Born == i }) {
		return "makes no tensor of its own"
	}
	for j := i + 1; int(j) < len(g.Ops) && g.Ops[j].Block == op.Block; j++ {
		later := &g.Ops[j]
		if later.Row().Work == Free {
			continue
		}
		for _, t := range g.Outputs(later) {
			if st := g.StorageOf(t); st.Born == i {
				return fmt.Sprintf("is changed in place by %s", g.Aten(j))
			}
		}
	}
	return ""
}
