// Package model reads a preset, a YAML spec or a Hugging Face config.json into a spec.Spec (Load, LoadHF, LoadPreset,
// Override) and builds the graph of its training step (Build). The packages below it hold the parts.
package model

import (
	"fmt"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// Build makes the graph of one forward pass with loss. The error names an arch that is not modelled.
func Build(s *spec.Spec, o build.Options) (*graph.Graph, error) {
	c := class.Of(s.Arch)
	if c == nil {
		return nil, fmt.Errorf("arch %q is not modelled", s.Arch)
	}
	if _, err := class.BlockOps(s); err != nil {
		return nil, err
	}
	if s.Attention == "flash2" {
		if err := s.Flash2(); err != nil {
			return nil, err
		}
	}
	b := build.NewBuilder(s, c.Constants, o)
	if o.CPU {
		b.G.RandomState = build.CPURandomState
	}
	c.Forward(class.Forward{Builder: b, Class: c})
	b.KeepUntil(b.G.Loss, graph.DropAfterBackward) // by the caller; the losses of parts go when they are summed
	b.EndBlock()
	b.G.Step.Registered = b.G.Registered(c.First, c.Modules)
	return b.G, nil
}
