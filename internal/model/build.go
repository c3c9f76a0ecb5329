package model

import "fmt"

// Build makes the graph of one forward pass with loss, of the ops that a CUDA device dispatches. The error names an
// arch that is not modelled.
func (s *Spec) Build() (*Graph, error) { return s.build(false) }

// BuildCPU is Build with the ops that the CPU dispatches for dropout and attention, and the random state that lies beside
// the step's tensors there.
func (s *Spec) BuildCPU() (*Graph, error) { return s.build(true) }

func (s *Spec) build(cpu bool) (*Graph, error) {
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
	b := newBuilder(s, c.constants)
	b.cpu = cpu
	if cpu {
		b.g.RandomState = cpuRandomState
	}
	c.forward(forward{b})
	b.keepUntil(b.g.Loss, DropAfterBackward) // by the caller; the losses of parts go when they are summed
	b.endBlock()
	b.g.Step.Registered = b.g.registered(c.modules)
	return b.g, nil
}
