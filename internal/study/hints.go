package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/optimizer"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

const (
	maxHints = 3
	// worthwhile is the part of the peak, as 1/n, that a change must save to be shown.
	worthwhile = 50
	// composed is the activation that Hugging Face writes in single ops, of which autograd keeps four tensors of the
	// MLP's width; oneKernel is the same function.
	composed, oneKernel = "gelu_new", "gelu_tanh"
	// fusedNorm is the kernel of libraries for the RMSNorm that Hugging Face composes, of which autograd keeps fp32 tensors.
	fusedNorm = "rmsnorm-fused"
	// rank is that of suggested adapters.
	rank = 16
	// parts is the number of suggested parts of head and loss.
	parts = 8
)

// Hint is one change to a training step, simulated.
type Hint struct {
	Change    string     `json:"change"`
	Flags     string     `json:"flags"`
	PeakBytes unit.Bytes `json:"peak_tensor_bytes"`
	// TokensPerSecond is the throughput with the change.
	TokensPerSecond float64  `json:"tokens_per_second"`
	Verdict         *Verdict `json:"verdict"`

	other bool
}

// change is something to try: settings, or a plan.
type change struct {
	words, flags string
	settings     model.Overrides
	full         bool
	other        bool // it changes what is trained
}

// changes lists what may lower the peak of a spec under a plan.
func changes(s *spec.Spec, full bool) []change {
	var cs []change
	if !full {
		cs = append(cs, change{words: "checkpoint every layer", flags: "--strategy full", full: true})
	}
	accum := max(1, s.Train.GradAccum)
	for _, b := range smallerBatches(s.B) {
		steps := accum * s.B / b
		cs = append(cs, change{
			words: fmt.Sprintf("micro batch %d with %d accumulation steps", b, steps), flags: fmt.Sprintf("--batch %d --grad-accum %d", b, steps),
			settings: model.Overrides{Batch: &b, GradAccum: &steps},
		})
	}
	if s.Train.KeepLogits {
		drop := false
		cs = append(cs, change{words: "free the logits before backward", flags: "--keep-logits=false", settings: model.Overrides{KeepLogits: &drop}})
	}
	if chunks := min(parts, s.S); model.Chunkable(s) && s.Train.LossChunks <= 1 && chunks > 1 { // a micro batch of 1 has S tokens
		cs = append(cs, change{words: fmt.Sprintf("head and loss in %d parts, each recomputed", chunks), settings: model.Overrides{LossChunks: &chunks}}.flagged())
	}
	if s.Activation == composed {
		cs = append(cs, change{words: "the same GELU in one kernel", flags: "--activation " + oneKernel, settings: model.Overrides{Activation: oneKernel}})
	}
	if model.FusesNorm(s) {
		cs = append(cs, change{words: "the same RMSNorm in one kernel", flags: "--norm " + fusedNorm, settings: model.Overrides{Norm: fusedNorm}})
	}
	if s.Train.LoRA == nil && model.TakesLoRA(s, rank) {
		cs = append(cs, change{words: fmt.Sprintf("LoRA, which trains adapters of rank %d alone", rank), settings: adapters(), other: true}.flagged())
	}
	if row, err := optimizer.Lookup(s.Train.Optimizer); err == nil {
		if row.Leaner != "" {
			cs = append(cs, trained(row.Leaner, false))
		}
		if len(row.State) > 0 {
			cs = append(cs, trained(optimizer.SGD, true))
		}
	}
	return cs
}

// floor is a peak that no plan falls below with the change, read off a step without it. All but adapters and another
// optimizer leave the optimizer's part of the step as it is, apart from inputs; an optimizer that computes the same with
// less memory (optimizer.Row.Leaner) keeps the same state, and leaves the passes before it as they are.
func (c *change) floor(tl *memory.Timeline) unit.Bytes {
	peaks := &tl.Second.Peak
	switch {
	case c.settings.LoRA != nil || c.other:
		return 0
	case c.settings.Optimizer != "":
		return unit.Bytes(max(peaks[memory.Forward].Bytes, peaks[memory.Backward].Bytes))
	}
	return unit.Bytes(peaks[memory.Optimizer].Bytes) - tl.Inputs
}

// trained is the change to another optimizer; other: that optimizer computes something else.
func trained(name string, other bool) change {
	c := change{settings: model.Overrides{Optimizer: name}, other: other}
	if row, err := optimizer.Lookup(name); err == nil {
		c.words = row.Words
	}
	return c.flagged()
}

// adapters are the settings of suggested adapters.
func adapters() model.Overrides {
	l := fmt.Sprintf("r=%d", rank)
	return model.Overrides{LoRA: &l}
}

// smallerBatches are half of a micro batch (its largest divisor, so that the global batch stays) and 1.
func smallerBatches(b int) []int {
	var out []int
	for d := 2; d <= b; d++ {
		if b%d == 0 {
			out = append(out, b/d)
			break
		}
	}
	if len(out) > 0 && out[0] != 1 {
		out = append(out, 1)
	}
	return out
}

// hints simulates the changes on top of the chosen estimate and ranks those that lower its peak by 2 % or more: those
// that fit first, by throughput; then the rest, by peak. Changes to the training itself come last.
//
// planned says that the plan is the search's own: then no strategy is suggested, since optimize takes none, and
// the flags lead to a plan with as low a peak.
func (e *Estimation) hints(ctx context.Context, planned bool) ([]Hint, error) {
	base := e.best()
	full := planned || base.Plan.Strategy == "full"
	var hints []Hint
	joined := 0
	all := change{words: "all that help, without another optimizer"}
	for _, c := range changes(e.study.Spec, full) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		was := unit.Bytes(base.Timeline.Peak.Bytes)
		if c.floor(base.Timeline) > was-was/worthwhile {
			continue
		}
		h, err := e.try(base.Choice, c)
		if err != nil {
			return nil, err
		}
		if h != nil && h.PeakBytes <= was-was/worthwhile {
			hints = append(hints, *h)
			if !c.other {
				joined++
				all.add(c)
			}
		}
	}
	slices.SortStableFunc(hints, func(a, b Hint) int {
		fa, fb := a.fits(), b.fits()
		switch {
		case fa != fb:
			return before(fa)
		case a.other != b.other:
			return before(b.other)
		case fa:
			return -cmp.Compare(a.TokensPerSecond, b.TokensPerSecond)
		}
		return cmp.Compare(a.PeakBytes, b.PeakBytes)
	})
	if e.OOM() && joined > 1 && !hints[0].fits() {
		h, err := e.try(base.Choice, all)
		if err != nil {
			return nil, err
		}
		if h != nil {
			hints = append([]Hint{*h}, hints...)
		}
	}
	if spec := e.study.Spec; e.OOM() && (len(hints) == 0 || !hints[0].fits()) && spec.Train.LoRA == nil && model.TakesLoRA(spec, rank) {
		// Weights, gradients and optimizer state alone take too much, or nearly; without them any change may help.
		lora := change{words: "LoRA, which trains adapters alone, and all the rest", settings: adapters(), other: true}
		for _, c := range changes(spec, full) {
			if !c.other {
				lora.add(c)
			}
		}
		h, err := e.try(base.Choice, lora.flagged())
		if err != nil {
			return nil, err
		}
		if h != nil && h.fits() {
			hints = append([]Hint{*h}, hints...)
		}
	}
	return hints[:min(maxHints, len(hints))], nil
}

func before(a bool) int {
	if a {
		return -1
	}
	return 1
}

func (h *Hint) fits() bool { return h.Verdict != nil && *h.Verdict != OOM }

// add joins a change; the later of two values of a setting wins.
func (c *change) add(d change) {
	c.full = c.full || d.full
	if d.settings.Batch != nil {
		c.settings.Batch, c.settings.GradAccum = d.settings.Batch, d.settings.GradAccum
	}
	if d.settings.KeepLogits != nil {
		c.settings.KeepLogits = d.settings.KeepLogits
	}
	if d.settings.LossChunks != nil {
		c.settings.LossChunks = d.settings.LossChunks
	}
	if d.settings.Activation != "" {
		c.settings.Activation = d.settings.Activation
	}
	if d.settings.Norm != "" {
		c.settings.Norm = d.settings.Norm
	}
	if d.settings.LoRA != nil {
		c.settings.LoRA = d.settings.LoRA
	}
	if d.settings.Optimizer != "" {
		c.settings.Optimizer = d.settings.Optimizer
	}
	c.flags = c.line()
}

// flagged is the change with the flags of its settings.
func (c change) flagged() change {
	c.flags = c.line()
	return c
}

// line is the change as flags.
func (c *change) line() string {
	text := ""
	if c.full {
		text += " --strategy full"
	}
	if o := c.settings; o.Batch != nil {
		text += fmt.Sprintf(" --batch %d --grad-accum %d", *o.Batch, *o.GradAccum)
	}
	if c.settings.KeepLogits != nil {
		text += " --keep-logits=false"
	}
	if c.settings.LossChunks != nil {
		text += fmt.Sprintf(" --loss-chunks %d", *c.settings.LossChunks)
	}
	if c.settings.Activation != "" {
		text += " --activation " + c.settings.Activation
	}
	if c.settings.Norm != "" {
		text += " --norm " + c.settings.Norm
	}
	if c.settings.LoRA != nil {
		text += " --lora " + *c.settings.LoRA
	}
	if c.settings.Optimizer != "" {
		text += " --optimizer " + c.settings.Optimizer
	}
	return text[min(1, len(text)):]
}

// try simulates one change; nil if the spec does not take it (more parts of the loss than the smaller batch has tokens),
// or if the plan cannot run with it (adapters and other kernels rename the ops that a plan keeps).
func (e *Estimation) try(base Choice, c change) (*Hint, error) {
	spec, err := Vary(e.study.Spec, c.settings)
	if err != nil {
		return nil, nil
	}
	study, err := New(spec, e.study.Request)
	if err != nil {
		return nil, err
	}
	if c.full {
		if base.Plan, err = plan.Named("full", study.layers()); err != nil {
			return nil, err
		}
	}
	p, err := study.Simulate(base)
	if cannot := new(StrategyError); errors.As(err, &cannot) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &Hint{Change: c.words, Flags: c.flags, PeakBytes: unit.Bytes(p.Timeline.Peak.Bytes), other: c.other}
	if t := timeOf(p.Timeline, study.Tokens()); t != nil {
		h.TokensPerSecond = t.TokensPerSecond
	}
	if study.Budget > 0 {
		f := study.fit(p.Timeline.Peak.Bytes)
		h.Verdict = &f.Verdict
	}
	return h, nil
}

// logitsRule is true if logits and loss hold more of the peak than all other activations and their gradients.
func logitsRule(b *memory.Breakdown) bool {
	others := b.By(memory.Saved) + b.By(memory.RegionInputs) + b.By(memory.Recomputed) + b.By(memory.ActGradients) + b.By(memory.Temporaries)
	return b.By(memory.LogitsLoss) > others
}
