package memory

import (
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
)

// Programs are the compiled graphs of one model, each built when it is first asked for: one, or, where what is
// checkpointed changes the graph (spec.Spec.CheckpointKinds), one for each kind of plan. Users of adapters make the
// embedding's output require a gradient together with checkpointing, and T5's layers do so with a bias.
type Programs struct {
	spec  *spec.Spec
	cpu   bool
	built map[string]*Program
}

// NewPrograms are those of a spec, with the ops of PyTorch on the CPU or on a CUDA device.
func NewPrograms(spec *spec.Spec, cpu bool) *Programs {
	return &Programs{spec: spec, cpu: cpu, built: map[string]*Program{}}
}

// Kin are the programs of the same model, p among them.
func (p *Program) Kin() *Programs {
	if p.kin == nil {
		p.kin = NewPrograms(build.SpecOf(p.Graph), p.Graph.Step.CPU)
		p.kin.built[p.kin.kind(p.Graph.Step.Checkpoint)] = p
	}
	return p.kin
}

// kind is the kind of plan whose graph serves plans of a kind.
func (s *Programs) kind(of string) string {
	kinds := s.spec.CheckpointKinds()
	switch {
	case of == "" || len(kinds) == 1:
		return "none"
	case slices.Contains(kinds, of):
		return of
	}
	return kinds[len(kinds)-1]
}

// Kind is the program that plans of a kind (plan.Plan.Kind) run on.
func (s *Programs) Kind(kind string) (*Program, error) {
	kind = s.kind(kind)
	if p := s.built[kind]; p != nil {
		return p, nil
	}
	g, err := model.Build(s.spec, build.Options{CPU: s.cpu, Checkpoint: kind})
	if err != nil {
		return nil, err
	}
	p := Compile(g)
	p.kin, s.built[kind] = s, p
	return p, nil
}

// Judge simulates a plan on the graph of its kind.
func (s *Programs) Judge(pl *plan.Plan, sheet *gpu.Sheet) (*Timeline, error) {
	p, err := s.Kind(pl.Kind())
	if err != nil {
		return nil, err
	}
	return Judge(p, pl, sheet)
}
