// Package study answers questions about one spec on one card: what a training step needs, which plan is the fastest that
// fits, what the largest batch is, what would help, and whether a device agrees. Its answers are the documents that
// --format json prints; package report lays them out for people.
package study

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/export"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
)

// Request says what a spec is studied for.
type Request struct {
	// Request is the device that a step has to fit (Budget 0: none is given), the card that times are for, and the plans
	// that may be chosen.
	strategy.Request
	// Assumed is true if the card is the default one.
	Assumed bool
	// CPU asks for the ops that PyTorch dispatches on the CPU.
	CPU bool
	// Allow lists the changes of head and loss that a search may make: see HeadChoices.
	Allow []string
	// Target is the trainer that has to run the plan, or nil.
	Target *export.Target
	// Tool is the version that a plan file names.
	Tool string
}

// Card is the data sheet that times are for, as documents name it.
type Card struct {
	Name string `json:"name"`
	// Assumed is true if it is the default one.
	Assumed bool `json:"assumed"`
}

// Study answers questions about one spec.
type Study struct {
	Spec *spec.Spec
	Request

	programs *memory.Programs
}

// New starts a study. The error is about the model: a class that is not modelled, or adapters in one that has none; or a
// *CardError.
func New(spec *spec.Spec, req Request) (*Study, error) {
	if err := canRun(req.Sheet, spec); err != nil {
		return nil, err
	}
	s := &Study{Spec: spec, Request: req, programs: memory.NewPrograms(spec, req.CPU)}
	p, err := s.programs.Kind("none")
	if err != nil {
		return nil, err
	}
	if spec.Train.LoRA != nil && !slices.ContainsFunc(p.Graph.Params, func(p graph.Param) bool { return p.Trained }) {
		return nil, fmt.Errorf("LoRA is not modelled for arch %s", spec.Arch)
	}
	return s, nil
}

// Vary is the study of the spec with other settings.
func (s *Study) Vary(o model.Overrides) (*Study, error) {
	spec, err := Vary(s.Spec, o)
	if err != nil {
		return nil, err
	}
	return New(spec, s.Request)
}

// Vary is a spec with other settings of its training step. Its assumptions and warnings stay: the user did not choose the
// settings. A length is that of both stacks of an encoder-decoder model, and moves max_positions unless positions are
// learned. Length is not checked; other settings are checked as those of the command line are.
func Vary(spec *spec.Spec, o model.Overrides) (*spec.Spec, error) {
	t := *spec
	if o.Seq != nil {
		t.S = *o.Seq
		if t.DecoderS > 0 {
			t.DecoderS = t.S
		}
		if t.Positions != "learned" {
			t.MaxS = max(t.MaxS, t.S)
		}
		o.Seq = nil
	}
	if o != (model.Overrides{}) {
		if err := model.Override(&t, o); err != nil {
			return nil, err
		}
		t.Warnings, t.Defaults = spec.Warnings, spec.Defaults
	}
	return &t, nil
}

// Choice is a strategy to simulate: a plan and the name that the user gave it.
type Choice struct {
	Name string
	Plan *plan.Plan
	// Optional choices are left out where the model has no such part.
	Optional bool
}

// StrategyError says that a strategy cannot be applied to the model.
type StrategyError struct {
	Strategy string
	Err      error
}

func (e *StrategyError) Error() string { return fmt.Sprintf("strategy %s: %v", e.Strategy, e.Err) }
func (e *StrategyError) Unwrap() error { return e.Err }

// Simulation is a plan's simulated training step.
type Simulation struct {
	Choice
	Timeline *memory.Timeline

	owners *memory.Breakdown
}

// Owners says who holds the bytes of the peak. Its first call walks the schedule again.
func (x *Simulation) Owners() *memory.Breakdown {
	if x.owners == nil {
		x.owners = x.Timeline.Explain()
	}
	return x.owners
}

// Simulate runs one choice through the simulator.
func (s *Study) Simulate(c Choice) (*Simulation, error) {
	tl, err := s.programs.Judge(c.Plan, s.Sheet)
	if err != nil {
		return nil, &StrategyError{c.Name, err}
	}
	return &Simulation{Choice: c, Timeline: tl}, nil
}

// layers is the number of layers that strategies count.
func (s *Study) layers() int { return plan.LayersOf(s.Spec) }

// named simulates a named strategy.
func (s *Study) named(name string) (*Simulation, error) {
	p, err := plan.Named(name, s.layers())
	if err != nil {
		return nil, err
	}
	return s.Simulate(Choice{Name: name, Plan: p})
}

// program is the one for plans that checkpoint whole layers; searches use it for the model.
func (s *Study) program() (*memory.Program, error) { return s.programs.Kind("full") }

// Tokens is the number of tokens of one optimizer step: micro batch × sequence length × accumulation steps.
func (s *Study) Tokens() int64 {
	return int64(s.Spec.B) * int64(s.Spec.S) * int64(max(1, s.Spec.Train.GradAccum))
}

// Where says in words when the peak is reached.
func (x *Simulation) Where() string { return where(x.Timeline) }

func where(tl *memory.Timeline) string {
	at := tl.Peak
	phase := at.Phase.String()
	if at.Recompute {
		phase = "recompute"
	}
	if block := tl.Block(at); block != "" {
		phase += " of " + block
	}
	return phase + ", " + opName(at.Aten)
}

// opName is an ATen call without its namespace and the underscore of private names: log_softmax.
func opName(aten string) string {
	return strings.TrimPrefix(strings.TrimPrefix(aten, "aten."), "_")
}

// card is the card as documents name it.
func (s *Study) card() Card { return Card{Name: s.Sheet.Name, Assumed: s.Assumed} }
