package menu

import (
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
)

// EarlyStops is, by layer of the chain, what the second forward of a checkpoint does without when it ends with
// that layer under option k, in nanoseconds: PyTorch stops it at the last tensor that backward needs, so that what
// follows in the layer (with the option keep, its last matrix product) does not run again. It is read off a simulation
// in which every layer is a checkpoint of its own with the option inside.
func (m *Menu) EarlyStops(k int) ([]int64, error) {
	pl := &plan.Plan{}
	for l := range m.Chain.Graph.Layers {
		pl.Nodes = append(pl.Nodes, plan.Node{First: l, Last: l, Segment: true, Inner: []plan.Node{{First: l, Last: l, Option: &m.Options[k]}}})
	}
	s, err := memory.Lower(m.Chain, pl)
	if err != nil {
		return nil, err
	}
	_, blocks, err := memory.Profile(s, m.Sheet)
	if err != nil {
		return nil, err
	}
	out := make([]int64, m.Chain.Graph.Layers)
	for l := range out {
		n := m.Chain.Graph.LayerBlock(l)
		b := &m.blocks[k][n]
		out[l] = b.Forward + b.Recompute - blocks[n].Recompute
	}
	return out, nil
}
