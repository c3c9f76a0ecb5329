package study

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ckptplan/internal/exec"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/unit"
)

// Verification is the answer to `verify`.
type Verification struct {
	FormatVersion int    `json:"format_version"`
	Model         Model  `json:"model"`
	Engine        string `json:"engine"`
	Device        string `json:"device"`
	// Environment is versions, card, driver and seed.
	Environment map[string]any `json:"environment"`
	// GPU is the card of the predicted times.
	GPU         Card     `json:"gpu"`
	Assumptions []string `json:"assumptions"`
	Predicted   Entry    `json:"predicted"`
	// Measured is absent if the device ran out of memory.
	Measured    *Measured    `json:"measured,omitempty"`
	Tolerance   float64      `json:"tolerance"`
	Differences []Difference `json:"differences"`
	// Gradients are absent where values are not computed (meta) or no baseline was run.
	Gradients   *Gradients   `json:"gradients,omitempty"`
	Baseline    *Baseline    `json:"baseline,omitempty"`
	OutOfMemory *OutOfMemory `json:"out_of_memory,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
	Verdict     Agreement    `json:"verdict"`

	// Comparison holds phase by phase what Differences sums up.
	Comparison *exec.Comparison `json:"-"`
	// OnCUDA is true for a CUDA device, the kind that times are predicted for.
	OnCUDA bool `json:"-"`
}

// Agreement is the verdict of a verification.
type Agreement string

// The verdicts of a verification.
const (
	Agrees  Agreement = "agrees"
	Differs Agreement = "differs"
)

// Measured is what was measured, under the keys of an Entry. What the engine cannot see is absent.
type Measured struct {
	Strategy       string                `json:"strategy"`
	Peak           exec.Peak             `json:"peak"`
	Phases         map[string]exec.Level `json:"phases"`
	BeforeBackward exec.Level            `json:"before_backward"`
	Time           *MeasuredTime         `json:"time,omitempty"`
	// Retries counts how often the caching allocator gave its cache back and tried again.
	Retries int `json:"allocation_retries,omitempty"`
}

// MeasuredTime is the mean of the timed steps.
type MeasuredTime struct {
	StepNanoseconds int64 `json:"step_ns"`
	// HalfWidth is that of the 95 % confidence interval of the mean; absent with one step.
	HalfWidth       int64   `json:"step_half_width_ns,omitempty"`
	Steps           int     `json:"steps"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	// RecomputeOverhead is the time beyond the baseline's step, in parts of it; absent without a baseline.
	RecomputeOverhead *float64 `json:"recompute_overhead,omitempty"`
	// OverheadHalfWidth is that of its 95 % interval, from those of both steps.
	OverheadHalfWidth float64 `json:"recompute_overhead_half_width,omitempty"`
}

// Difference is one amount, predicted and measured.
type Difference struct {
	What      string     `json:"what"`
	Predicted unit.Bytes `json:"predicted_bytes"`
	Measured  unit.Bytes `json:"measured_bytes"`
	// Share is how far the measured amount is above the predicted one, in parts of the measured one.
	Share  float64 `json:"difference"`
	Within bool    `json:"within_tolerance"`
}

// Gradients compare the plan's loss and gradients with the baseline's.
type Gradients struct {
	// Equal is to the bit. Agree allows for Tolerance of a gradient's norm, since some kernels add in no fixed order.
	Equal        bool     `json:"equal"`
	Agree        bool     `json:"agree"`
	Tolerance    float64  `json:"tolerance"`
	Parameters   int      `json:"parameters"`
	BaselineLoss *float64 `json:"baseline_loss,omitempty"`
	Loss         *float64 `json:"loss,omitempty"`
	// Worst is the parameter whose gradient is off most, by Difference of its norm; Causes explain why.
	Worst      string   `json:"worst,omitempty"`
	Difference *float64 `json:"difference,omitempty"`
	Causes     []string `json:"causes,omitempty"`
}

// Baseline is the step without checkpointing.
type Baseline struct {
	Predicted Entry     `json:"predicted"`
	Measured  *Measured `json:"measured"`
}

// OutOfMemory is the answer of a device that the step does not fit.
type OutOfMemory struct {
	Requested unit.Bytes `json:"requested_bytes"`
	Allocated unit.Bytes `json:"allocated_bytes"`
	Reserved  unit.Bytes `json:"reserved_bytes"`
	Free      unit.Bytes `json:"free_bytes"`
	Total     unit.Bytes `json:"total_bytes"`
	// Offered is the part of the total that the run could take; absent if unknown.
	Offered unit.Bytes `json:"offered_bytes,omitempty"`

	Err error `json:"-"`
}

// Run is a verification that was done: the simulated plan and what an engine measured of it.
type Run struct {
	Plan  *Simulation
	Steps *exec.Measurement
	// Failed is set instead of Steps if the device ran out of memory: an error that wraps an *exec.MemoryError.
	Failed error
	// Engine and Device name where the plan ran, or was to run.
	Engine, Device string
	// Baseline is the simulation of the step without checkpointing, and Bare its measurement; nil if it was not run.
	Baseline *Simulation
	Bare     *exec.Measurement
	// Offered is the memory that the run could take, 0 if that is not known.
	Offered   unit.Bytes
	Tolerance float64 // 0.05 is 5 %
	Seed      int64
	Notes     []string
}

// Verify compares measurements with the prediction.
func (s *Study) Verify(r Run) *Verification {
	v := &Verification{
		FormatVersion: FormatVersion, Model: s.describe(r.Plan.Timeline.Graph()), Engine: r.Engine, Device: r.Device, GPU: s.card(),
		Assumptions: s.assumptions(r.Plan.Timeline.Graph()),
		Predicted:   s.entry(r.Plan), Tolerance: r.Tolerance, Differences: []Difference{}, Notes: r.Notes,
		Environment: map[string]any{"seed": r.Seed}, OnCUDA: OnCUDA(r.Device),
	}
	if r.Steps == nil {
		v.ranOut(s, r)
		return v
	}
	for k, x := range r.Steps.Environment {
		v.Environment[k] = x
	}
	if s.CPU {
		v.Notes = append(v.Notes, s.cpuNotes()...)
	}
	v.Measured = s.measured(r.Plan.Name, r.Steps)
	v.Comparison = exec.Compare(r.Plan.Timeline, r.Steps, r.Tolerance)
	for _, d := range v.Comparison.Lines {
		v.Differences = append(v.Differences, Difference{d.What, d.Predicted, d.Measured, 0 - d.Share, d.Within})
	}
	if r.Bare != nil {
		v.against(s, r)
	}
	v.Verdict = Agrees
	if !v.Comparison.Agrees || v.Gradients != nil && !v.Gradients.Agree {
		v.Verdict = Differs
	}
	return v
}

// ranOut is the verdict if the device was too small: agreement if that was predicted.
func (v *Verification) ranOut(s *Study, r Run) {
	v.OutOfMemory = &OutOfMemory{Offered: r.Offered, Err: r.Failed}
	var m *exec.MemoryError
	if errors.As(r.Failed, &m) {
		v.OutOfMemory.Requested, v.OutOfMemory.Allocated, v.OutOfMemory.Reserved = m.Requested, m.Allocated, m.Reserved
		v.OutOfMemory.Free, v.OutOfMemory.Total = m.Free, m.Total
	}
	need := v.Predicted.Peak.TensorBytes
	if v.OnCUDA {
		need = s.NeedOf(r.Plan)
	}
	v.Verdict = Differs
	if r.Offered > 0 && need > r.Offered {
		v.Verdict = Agrees
	}
}

// against compares with the step without checkpointing: time and values.
func (v *Verification) against(s *Study, r Run) {
	v.Baseline = &Baseline{Predicted: s.entry(r.Baseline), Measured: s.measured(r.Baseline.Name, r.Bare)}
	if bare := v.Baseline.Measured.Time; bare != nil && v.Measured.Time != nil {
		v.Measured.Time.beyond(bare)
	}
	if len(r.Bare.Gradients) == 0 {
		return
	}
	x := exec.CompareValues(r.Bare, r.Steps, significand(s.Spec.Precision))
	v.Gradients = &Gradients{
		Equal: x.Equal, Agree: x.Close, Tolerance: x.Tolerance, Parameters: len(r.Steps.Gradients),
		BaselineLoss: finite(x.BaselineLoss), Loss: finite(x.PlanLoss), Worst: x.Worst, Causes: x.Causes,
	}
	if x.Worst != "" {
		v.Gradients.Difference = finite(x.Off)
	}
}

// beyond sets the overhead over the baseline's step: the ratio r of two means less 1. Its relative error is the root of
// the sum of the squares of theirs.
func (t *MeasuredTime) beyond(bare *MeasuredTime) {
	plan, base := float64(t.StepNanoseconds), float64(bare.StepNanoseconds)
	r := plan / base
	extra := r - 1
	t.RecomputeOverhead = &extra
	if t.HalfWidth > 0 && bare.HalfWidth > 0 {
		t.OverheadHalfWidth = r * math.Hypot(float64(t.HalfWidth)/plan, float64(bare.HalfWidth)/base)
	}
}

func (s *Study) measured(strategy string, m *exec.Measurement) *Measured {
	m.Peak.Op, _, _ = strings.Cut(opName(m.Peak.Op), ".") // without its overload
	out := &Measured{Strategy: strategy, Peak: m.Peak, Phases: m.Phases, BeforeBackward: m.BeforeBackward, Retries: m.Retries}
	if t, ok := m.StepTime(); ok && t.Mean > 0 {
		out.Time = &MeasuredTime{StepNanoseconds: int64(t.Mean), Steps: t.N, TokensPerSecond: float64(s.Tokens()) / unit.Duration(t.Mean).Seconds()}
		if !math.IsNaN(t.Half) {
			out.Time.HalfWidth = int64(t.Half)
		}
	}
	return out
}

// cpuNotes say where the predicted ops differ from those of a CUDA device.
func (s *Study) cpuNotes() []string {
	var ops []string
	if d := s.Spec.Dropout; d.Embedding+d.Attention+d.Residual+d.MLP > 0 {
		ops = append(ops, "dropout (its mask is as wide as its input)")
	}
	if s.Spec.Attention == "sdpa" || s.Spec.Attention == "flash2" {
		ops = append(ops, "attention")
	}
	if _, amp := s.Spec.Precision.Autocast(); amp {
		ops = append(ops, "autocast (norms, powers and softmax stay in 16 bits)")
	}
	if len(ops) == 0 {
		return nil
	}
	return []string{"the prediction is for the CPU's own ops for " + strings.Join(ops, " and ") + ": a CUDA device has others, which --device meta shows"}
}

// significand is the number of bits of the type that products are computed in.
func significand(p dtype.Precision) int {
	compute := p.Weights()
	if low, on := p.Autocast(); on {
		compute = low
	}
	switch compute {
	case dtype.BF16:
		return 8
	case dtype.F16:
		return 11
	}
	return 24
}

// finite is a number that JSON can hold, or nil.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// NeedOf is the memory that must be free on a CUDA device for a plan: its tensors and the reserve.
func (s *Study) NeedOf(x *Simulation) unit.Bytes {
	return s.Device().Need(unit.Bytes(x.Timeline.Peak.Bytes))
}

// HostBytes is what the host engine needs for a plan: every number takes 4 bytes there.
func (x *Simulation) HostBytes() unit.Bytes {
	peak := unit.Bytes(x.Timeline.Peak.Bytes)
	if build.SpecOf(x.Timeline.Graph()).Precision.Weights().Size() < 4 {
		peak *= 2
	}
	return peak
}

// DifferError is returned after a result that says that prediction and measurement differ was printed.
type DifferError struct{ Text string }

func (e *DifferError) Error() string { return e.Text }

// Err is a *DifferError, the error of a device that ran out of memory, or nil.
func (v *Verification) Err() error {
	if v.OutOfMemory != nil {
		return v.OutOfMemory.Err
	}
	if v.Verdict == Agrees {
		return nil
	}
	if v.Gradients != nil && !v.Gradients.Agree {
		return &DifferError{"the plan changes the gradients"}
	}
	return &DifferError{fmt.Sprintf("prediction and measurement differ by more than %s", Tolerance(v.Tolerance))}
}

// Tolerance prints a tolerance with the digits that it was given in: 5 %, 0.5 %.
func Tolerance(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 6, 64) + " %"
}

// OnCUDA is true for the name of a CUDA device.
func OnCUDA(device string) bool { return strings.HasPrefix(device, "cuda:") }
