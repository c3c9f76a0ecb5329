package study

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// Verdict says whether a training step fits a device.
type Verdict string

// The verdicts.
const (
	Fits  Verdict = "fits"
	Tight Verdict = "tight" // may fit; a run tells
	OOM   Verdict = "oom"
)

// tightMargin is the margin, as a share of the budget, below which a run should be verified: memory other than tensors is
// not known better than that.
const tightMargin = 20

// Fit compares a peak with a budget of the whole device.
type Fit struct {
	Verdict Verdict
	// Need is the tensors' peak plus the reserve; Margin is the budget minus that, negative if it is exceeded.
	Need, Margin unit.Bytes
	Reserve      []gpu.ReserveItem
}

// FitOf judges a peak. It fits if the budget holds tensors and reserve with a margin of 5 %. It is tight if the margin is
// less, or if the tensors fit with the smallest reserve seen anywhere: the allocator's rounding depends on the
// order of sizes, the context on driver and libraries.
func FitOf(tensors unit.Bytes, b gpu.Budget) Fit {
	f := Fit{Reserve: b.Items(tensors), Need: b.Need(tensors)}
	f.Margin = b.Device - f.Need
	switch {
	case f.Margin >= 0 && f.Margin*tightMargin >= b.Device:
		f.Verdict = Fits
	case tensors+gpu.Least(f.Reserve) <= b.Device:
		f.Verdict = Tight
	default:
		f.Verdict = OOM
	}
	return f
}

// fit judges a peak under the study's budget.
func (s *Study) fit(peak int64) Fit { return FitOf(unit.Bytes(peak), s.Device()) }
