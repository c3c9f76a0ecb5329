package exec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckptplan/internal/memory"
	"ckptplan/internal/unit"
)

// Comparison sets predictions beside measurements.
type Comparison struct {
	// Tolerance is the share of a measured amount that a prediction may be off: 0.05 is 5 %.
	Tolerance float64      `json:"tolerance"`
	Lines     []Difference `json:"differences"`
	// Agrees is true if no line is beyond the tolerance.
	Agrees bool `json:"-"`
}

// Difference is one amount, predicted and measured.
type Difference struct {
	What      string     `json:"what"`
	Predicted unit.Bytes `json:"predicted_bytes"`
	Measured  unit.Bytes `json:"measured_bytes"`
	// Share is (predicted − measured) / measured.
	Share  float64 `json:"difference"`
	Within bool    `json:"within_tolerance"`
}

// Compare compares a prediction with a measurement of the same plan, phase by phase and at the peak.
func Compare(tl *memory.Timeline, m *Measurement, tolerance float64) *Comparison {
	c := &Comparison{Tolerance: tolerance, Agrees: true}
	add := func(what string, predicted int64, measured unit.Bytes) {
		d := Difference{What: what, Predicted: unit.Bytes(predicted), Measured: measured}
		if measured != 0 {
			d.Share = float64(d.Predicted-d.Measured) / float64(measured)
		}
		d.Within = math.Abs(d.Share) <= tolerance
		c.Agrees = c.Agrees && d.Within
		c.Lines = append(c.Lines, d)
	}
	second := &tl.Second
	for _, ph := range []memory.Phase{memory.Forward, memory.Backward, memory.Optimizer} {
		if got, ok := m.Phases[ph.String()]; ok && (ph != memory.Optimizer || second.Peak[ph].Bytes > 0) {
			add(ph.String(), second.Peak[ph].Bytes, got.Tensor)
		}
		if ph == memory.Forward {
			add("before backward", second.BeforeBackward, m.BeforeBackward.Tensor)
		}
	}
	add("peak", tl.Peak.Bytes, m.Peak.Tensor)
	return c
}

// Values compares a run under a plan with one without: checkpointing must change neither loss nor gradients.
type Values struct {
	// Equal is true if all bytes are equal, Close if no gradient differs by more than Tolerance of its norm.
	Equal bool `json:"equal"`
	Close bool `json:"close"`
	// Tolerance allows for kernels that do not add in a fixed order.
	Tolerance float64 `json:"tolerance"`
	// Loss of the baseline and of the plan.
	BaselineLoss float64 `json:"baseline_loss"`
	PlanLoss     float64 `json:"loss"`
	// Worst is the parameter whose gradient differs most, by the share Off of its norm; empty if Equal.
	Worst string  `json:"worst,omitempty"`
	Off   float64 `json:"difference,omitempty"`
	// Causes say, in words, what differed between forward and recompute.
	Causes []string `json:"causes,omitempty"`
}

// CompareValues compares the loss and the gradients of a plan with the baseline's. bits is the significand of the type that
// products are computed in (24 for fp32, 8 for bf16).
func CompareValues(baseline, m *Measurement, bits int) *Values {
	// A few hundred roundings in another order stay far below this; a dropout mask drawn anew or an input scaled twice
	// is of the order of the gradient itself.
	v := &Values{Tolerance: math.Min(0.05, 4096*math.Pow(2, -float64(bits))), Equal: true, BaselineLoss: baseline.Loss, PlanLoss: m.Loss}
	if bits <= 11 {
		v.Tolerance = 0.05
	}
	before := map[string]Gradient{}
	for _, g := range baseline.Gradients {
		before[g.Name] = g
	}
	look := func(name string, off float64) {
		v.Equal = false
		if v.Worst == "" || off > v.Off || math.IsNaN(off) {
			v.Worst, v.Off = name, off
		}
	}
	if len(m.Gradients) != len(baseline.Gradients) {
		look("the number of gradients", math.Inf(1))
	}
	for _, g := range m.Gradients {
		b, ok := before[g.Name]
		switch {
		case !ok:
			look(g.Name, math.Inf(1))
		case b.SHA256 != g.SHA256:
			off := math.Max(math.Abs(g.SignedSum-b.SignedSum), math.Abs(g.Norm-b.Norm))
			look(g.Name, off/math.Max(b.Norm, math.SmallestNonzeroFloat32))
		}
	}
	if m.Loss != baseline.Loss {
		look("loss", math.Abs(m.Loss-baseline.Loss)/math.Abs(baseline.Loss))
	}
	v.Close = v.Equal || v.Off <= v.Tolerance
	v.Causes = Causes(m.Observations)
	if !v.Close && len(v.Causes) == 0 {
		v.Causes = []string{"no region started its recompute from another input, random state or precision: look for state that the forward pass changes, such as running statistics or a step counter"}
	}
	return v
}

// Causes are the classic mistakes that observations stand for, each with the regions where it was seen.
func Causes(seen []Observation) []string {
	text := map[string]string{
		"random state": "the random state is not restored for the recompute, so that dropout draws another mask: preserve_rng_state must stay true",
		"input":        "an op inside the region, or after it, changes the region's input in place, so that the recompute starts from other values: use the out-of-place form",
		"precision":    "the recompute runs in another precision than forward: it must run under the same autocast",
	}
	regions := map[string][]string{}
	for _, o := range seen {
		regions[o.Differs] = append(regions[o.Differs], o.Region)
	}
	var out []string
	for _, what := range []string{"precision", "input", "random state"} {
		if rs := regions[what]; len(rs) > 0 {
			slices.Sort(rs)
			out = append(out, fmt.Sprintf("%s (%s)", text[what], Some(rs)))
		}
	}
	return out
}

// Some joins names, or the first three of them and the number of the others.
func Some(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], "; "), len(names)-shown)
}
