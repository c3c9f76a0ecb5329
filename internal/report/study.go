package report

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

// Choice is a strategy to price: a plan under the name that the user gave it.
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

// Study prices plans of one spec on one card. It builds the graph once, or, where what is checkpointed changes the graph
// (model.Spec.DependsOnCheckpoint), once for each kind of plan.
type Study struct {
	Spec  *model.Spec
	Sheet *gpu.Sheet

	cpu      bool // priced with the ops that PyTorch's CPU dispatches
	programs map[string]*memory.Program
}

// Price is one plan's simulation.
type Price struct {
	Choice
	Timeline *memory.Timeline

	owners *memory.Breakdown
}

// Owners says who holds the bytes of the peak. It walks the schedule a second time, when it is first asked.
func (p *Price) Owners() *memory.Breakdown {
	if p.owners == nil {
		p.owners = p.Timeline.Explain()
	}
	return p.owners
}

// NewStudy starts a study. The error is about the model: a class that is not modelled, or adapters in one that has none.
func NewStudy(spec *model.Spec, sheet *gpu.Sheet) (*Study, error) {
	return newStudy(spec, sheet, false)
}

// NewCPUStudy is NewStudy for a run of PyTorch on the CPU, which has other ops for dropout and fused attention.
func NewCPUStudy(spec *model.Spec, sheet *gpu.Sheet) (*Study, error) {
	return newStudy(spec, sheet, true)
}

func newStudy(spec *model.Spec, sheet *gpu.Sheet, cpu bool) (*Study, error) {
	s := &Study{Spec: spec, Sheet: sheet, cpu: cpu, programs: map[string]*memory.Program{}}
	p, err := s.program("none")
	if err != nil {
		return nil, err
	}
	if spec.Train.LoRA != nil && !slices.ContainsFunc(p.Graph.Params, func(p model.Param) bool { return p.Trained }) {
		return nil, fmt.Errorf("LoRA is not modelled for arch %s", spec.Arch)
	}
	return s, nil
}

// Graph is the spec's graph without checkpointing.
func (s *Study) Graph() *model.Graph { return s.programs["none"].Graph }

// Program is the compiled graph for plans that checkpoint something.
func (s *Study) Program() (*memory.Program, error) { return s.program("full") }

func (s *Study) program(strategy string) (*memory.Program, error) {
	if !s.Spec.DependsOnCheckpoint() {
		strategy = "none"
	}
	if p := s.programs[strategy]; p != nil {
		return p, nil
	}
	g, err := model.Build(s.Spec, model.Options{CPU: s.cpu, Checkpoint: strategy})
	if err != nil {
		return nil, err
	}
	p := memory.Compile(g)
	s.programs[strategy] = p
	return p, nil
}

// Price simulates one choice.
func (s *Study) Price(c Choice) (*Price, error) {
	p, err := s.program(s.kind(c.Plan))
	if err != nil {
		return nil, err
	}
	tl, err := memory.Judge(p, c.Plan, s.Sheet)
	if err != nil {
		return nil, &StrategyError{c.Name, err}
	}
	return &Price{Choice: c, Timeline: tl}, nil
}

// kind is the kind of plan whose graph a plan runs on.
func (s *Study) kind(p *plan.Plan) string {
	k := p.Kind()
	if kinds := s.Spec.CheckpointKinds(); !slices.Contains(kinds, k) {
		return kinds[len(kinds)-1]
	}
	return k
}

// settle is the price of a choice that was simulated on some graph, which may not be that of its own kind.
func (s *Study) settle(c Choice, tl *memory.Timeline) (*Price, error) {
	if p := s.programs[s.kind(c.Plan)]; p == nil || p.Graph != tl.Graph() {
		return s.Price(c)
	}
	return &Price{Choice: c, Timeline: tl}, nil
}

// Tokens is the number of tokens of one optimizer step: micro batch × sequence length × accumulation steps.
func (s *Study) Tokens() int64 { return tokens(s.Spec) }

func tokens(s *model.Spec) int64 { return int64(s.B) * int64(s.S) * int64(max(1, s.Train.GradAccum)) }

// where says in words at which instant a peak is.
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
