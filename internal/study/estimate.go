package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/unit"
)

// FormatVersion is that of the JSON documents.
const FormatVersion = 1

// Estimation is the answer to `estimate`.
type Estimation struct {
	FormatVersion int          `json:"format_version"`
	Model         Model        `json:"model"`
	GPU           Card         `json:"gpu"`
	Assumptions   []string     `json:"assumptions"`
	Warnings      []string     `json:"warnings,omitempty"`
	BudgetBytes   unit.Bytes   `json:"budget_bytes,omitempty"`
	Estimates     []Entry      `json:"estimates"`
	Hints         []Hint       `json:"hints,omitempty"`
	Explanation   *Explanation `json:"explanation,omitempty"`

	// Chosen is the estimate that the headline describes.
	Chosen int `json:"-"`

	study *Study
}

// Model names what was simulated.
type Model struct {
	Name                string `json:"name"`
	Arch                string `json:"arch"`
	Parameters          int64  `json:"parameters"`
	TrainableParameters int64  `json:"trainable_parameters"`
	Layers              int    `json:"layers"`
	Batch               int    `json:"batch"`
	Seq                 int    `json:"seq"`
	DecoderSeq          int    `json:"decoder_seq,omitempty"` // of an encoder-decoder model
	GradAccum           int    `json:"grad_accum"`
	Precision           string `json:"precision"`
	Attention           string `json:"attention"`
	Optimizer           string `json:"optimizer"`
	// LoRA is the rank of the adapters and the layers that have them.
	LoRA string `json:"lora,omitempty"`
}

// Size is an amount of tensor bytes.
type Size struct {
	TensorBytes unit.Bytes `json:"tensor_bytes"`
}

// Entry is the estimate of one strategy. Phases and before_backward are of the second step, in which optimizer state
// exists. A phase that does not happen is absent.
type Entry struct {
	Strategy       string   `json:"strategy"`
	Peak           Peak     `json:"peak"`
	Phases         Phases   `json:"phases"`
	BeforeBackward Size     `json:"before_backward"`
	Static         Static   `json:"static"`
	Time           *Time    `json:"time,omitempty"`
	Verdict        *Verdict `json:"verdict"`
	// Need is absent without a budget.
	Need *Need `json:"need,omitempty"`
	// HostBytes are the most bytes in pinned host memory.
	HostBytes unit.Bytes `json:"host_bytes,omitempty"`

	Simulation *Simulation `json:"-"`
}

// MarshalJSON adds the breakdown of the peak. It costs a walk, and few tables show it.
func (en Entry) MarshalJSON() ([]byte, error) {
	type entry Entry
	return json.Marshal(struct {
		entry
		Breakdown []Term `json:"breakdown"`
	}{entry(en), en.Breakdown()})
}

// Breakdown is the peak by category.
func (en *Entry) Breakdown() []Term {
	var out []Term
	for _, c := range memory.Categories {
		if b := en.Simulation.Owners().By(c); b != 0 {
			out = append(out, Term{c, b})
		}
	}
	return out
}

// Peak is the highest instant of the second step.
type Peak struct {
	TensorBytes unit.Bytes `json:"tensor_bytes"`
	Phase       string     `json:"phase"`
	Block       string     `json:"block"` // "" in the optimizer
	Op          string     `json:"op"`
	Recompute   bool       `json:"recompute,omitempty"`
}

// Phases are the peaks of the parts of a step.
type Phases struct {
	Forward   Size  `json:"forward"`
	Backward  Size  `json:"backward"`
	Optimizer *Size `json:"optimizer,omitempty"`
}

// Static is what stays alive between the parts of a step.
type Static struct {
	ParameterBytes unit.Bytes `json:"parameter_bytes"`
	GradientBytes  unit.Bytes `json:"gradient_bytes"`
	OptimizerBytes unit.Bytes `json:"optimizer_bytes"`
}

// Term is one line of the breakdown of the peak. The lines add up to it.
type Term struct {
	Category memory.Category `json:"category"`
	Bytes    unit.Bytes      `json:"bytes"`
}

// Time is that of one optimizer step on the card.
type Time struct {
	StepNanoseconds int64   `json:"step_ns"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	// RecomputeOverhead is the time of recomputing and of copies to and from the host, in parts of the rest of the step.
	RecomputeOverhead float64 `json:"recompute_overhead"`
}

// Need is what the device must hold.
type Need struct {
	Bytes        unit.Bytes `json:"bytes"`
	ReserveBytes unit.Bytes `json:"reserve_bytes"`
	MarginBytes  unit.Bytes `json:"margin_bytes"`
	// Items are the parts of the reserve.
	Items []gpu.ReserveItem `json:"-"`
}

// Detail is how much an estimation tells.
type Detail int

// The details of an estimation.
const (
	Usual Detail = iota
	Rows         // without remarks and simulated changes
	Whole        // explained
)

// Estimate simulates every choice and, where that helps, changes that would improve the outcome.
func (s *Study) Estimate(ctx context.Context, choices []Choice, detail Detail) (*Estimation, error) {
	var xs []*Simulation
	for _, c := range choices {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x, err := s.Simulate(c)
		var unfit *StrategyError
		switch {
		case c.Optional && errors.As(err, &unfit):
			continue
		case err != nil:
			return nil, err
		}
		xs = append(xs, x)
	}
	if len(xs) == 0 {
		return nil, errors.New("no strategy to estimate")
	}
	e := s.assemble(xs...)
	if detail == Rows {
		e.Chosen = choose(e.Estimates)
		return e, nil
	}
	e.choose(choose(e.Estimates))
	e.Warnings = append(e.Warnings, e.strategyMistakes()...)
	held, err := e.gradientMistake()
	if err != nil {
		return nil, err
	}
	e.Warnings = append(e.Warnings, held...)
	if v := e.Best().Verdict; v != nil && *v != Fits || logitsRule(e.best().Owners()) {
		if e.Hints, err = e.hints(ctx, false); err != nil {
			return nil, err
		}
	}
	if detail == Whole {
		if e.Explanation, err = e.explain(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// assemble makes an Estimation of simulated steps and judges them.
func (s *Study) assemble(xs ...*Simulation) *Estimation {
	e := &Estimation{FormatVersion: FormatVersion, GPU: s.card(), BudgetBytes: s.Budget, study: s}
	for _, x := range xs {
		e.Estimates = append(e.Estimates, s.entry(x))
	}
	return e
}

// choose makes estimate i the one that headline, assumptions and warnings describe.
func (e *Estimation) choose(i int) {
	e.Chosen = i
	g := e.best().Timeline.Graph()
	e.Model = e.study.describe(g)
	e.Assumptions = e.study.assumptions(g)
	if e.GPU.Assumed {
		e.Assumptions = append(e.Assumptions, fmt.Sprintf("times are for %s: give --gpu", e.GPU.Name))
	}
	e.Warnings = append(append([]string{}, e.study.Spec.Warnings...), e.mistakes()...)
}

// assumptions are those for what the spec left open, and those of the graph.
func (s *Study) assumptions(g *graph.Graph) []string {
	return append(append([]string{}, s.Spec.Defaults...), g.Assumptions...)
}

// Best is the estimate that the headline describes.
func (e *Estimation) Best() *Entry { return &e.Estimates[e.Chosen] }

func (e *Estimation) best() *Simulation { return e.Best().Simulation }

// OOM is true if there is a budget and no estimate fits it.
func (e *Estimation) OOM() bool {
	v := e.Best().Verdict
	return v != nil && *v == OOM
}

// choose finds the estimate for the headline: the fastest that fits, else the fastest that is tight, else the one with
// the lowest peak; without a budget the first. Ties go to the first.
func choose(entries []Entry) int {
	if entries[0].Verdict == nil {
		return 0
	}
	for _, v := range []Verdict{Fits, Tight} {
		best := -1
		for i := range entries {
			if *entries[i].Verdict == v && (best < 0 || faster(&entries[i], &entries[best])) {
				best = i
			}
		}
		if best >= 0 {
			return best
		}
	}
	return Lowest(entries)
}

func faster(a, b *Entry) bool {
	return a.Time != nil && b.Time != nil && a.Time.StepNanoseconds < b.Time.StepNanoseconds
}

// Lowest is the estimate with the lowest peak.
func Lowest(entries []Entry) int {
	least := 0
	for i := range entries {
		if entries[i].Peak.TensorBytes < entries[least].Peak.TensorBytes {
			least = i
		}
	}
	return least
}

// entry turns a simulation into an Entry.
func (s *Study) entry(x *Simulation) Entry {
	tl := x.Timeline
	en := Entry{
		Strategy: x.Name,
		Peak: Peak{
			TensorBytes: unit.Bytes(tl.Peak.Bytes), Phase: tl.Peak.Phase.String(), Block: tl.Block(tl.Peak),
			Op: opName(tl.Peak.Aten), Recompute: tl.Peak.Recompute,
		},
		Phases:         Phases{Forward: phase(tl, memory.Forward), Backward: phase(tl, memory.Backward)},
		BeforeBackward: Size{unit.Bytes(tl.Second.BeforeBackward)},
		Static:         Static{tl.Parameters, tl.Gradients, tl.Optimizer},
		Time:           timeOf(tl, s.Tokens()),
		HostBytes:      unit.Bytes(tl.Second.HostPeak),
		Simulation:     x,
	}
	if o := phase(tl, memory.Optimizer); o.TensorBytes > 0 {
		en.Phases.Optimizer = &o
	}
	if s.Budget > 0 {
		f := s.fit(tl.Peak.Bytes)
		en.Verdict = &f.Verdict
		en.Need = &Need{Bytes: f.Need, ReserveBytes: gpu.Total(f.Reserve), MarginBytes: f.Margin, Items: f.Reserve}
	}
	return en
}

func phase(tl *memory.Timeline, p memory.Phase) Size {
	return Size{unit.Bytes(tl.Second.Peak[p].Bytes)}
}

func timeOf(tl *memory.Timeline, tokens int64) *Time {
	step := tl.Times.Step()
	if step == 0 {
		return nil
	}
	extra := tl.Times.Recompute + tl.Times.Transfer
	return &Time{
		StepNanoseconds: step, TokensPerSecond: float64(tokens) / unit.Duration(step).Seconds(),
		RecomputeOverhead: float64(extra) / float64(step-extra),
	}
}

func (s *Study) describe(g *graph.Graph) Model {
	t := s.Spec
	m := Model{
		Name: t.Name, Arch: t.Arch, Layers: g.Layers, Batch: t.B, Seq: t.S, DecoderSeq: t.DecoderS, GradAccum: max(1, t.Train.GradAccum),
		Precision: t.PrecisionName(), Attention: t.Attention, Optimizer: t.Train.Optimizer,
	}
	if l := t.Train.LoRA; l != nil {
		m.LoRA = fmt.Sprintf("r=%d on %s", l.Rank, strings.Join(l.Targets, ", "))
		if l.Base != "" {
			m.LoRA += " over " + l.Base
		}
	}
	for _, p := range g.Params {
		m.Parameters += p.Count
		if p.Trained {
			m.TrainableParameters += p.Count
		}
	}
	return m
}
