package model

import "fmt"

// Build makes the graph of one forward pass with loss. The error names an arch that is not modelled.
func Build(s *Spec, o Options) (*Graph, error) {
	c := classOf(s.Arch)
	if c == nil {
		return nil, fmt.Errorf("arch %q is not modelled", s.Arch)
	}
	if _, err := blockOps(s); err != nil {
		return nil, err
	}
	if s.Attention == "flash2" {
		if err := s.flash2(); err != nil {
			return nil, err
		}
	}
	b := newBuilder(s, c.constants, o)
	if o.CPU {
		b.g.RandomState = cpuRandomState
	}
	c.forward(forward{b})
	b.keepUntil(b.g.Loss, DropAfterBackward) // by the caller; the losses of parts go when they are summed
	b.endBlock()
	b.g.Step.Registered = b.g.registered(c.modules)
	return b.g, nil
}
