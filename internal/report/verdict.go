package report

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

// tightMargin is the margin, in parts of the budget, under which a run should be verified: the estimate of what is not
// tensors is not better than that.
const tightMargin = 20

// Fit holds a peak against a budget of the whole device.
type Fit struct {
	Verdict Verdict
	// Need is the tensors' peak and the reserve; Margin is what the budget leaves, negative if it is exceeded.
	Need, Margin unit.Bytes
	Reserve      []gpu.ReserveItem
}

// Budget is what a device offers, and what of it is not for tensors.
type Budget struct {
	Device unit.Bytes // 0: not given
	// Reserve is the memory beside tensors; negative takes the sheet's itemised reserve.
	Reserve unit.Bytes
	Sheet   *gpu.Sheet
}

// Tensors is what the device leaves for tensors.
func (b Budget) Tensors() unit.Bytes {
	if b.Reserve < 0 {
		return b.Sheet.TensorBudget(b.Device)
	}
	return b.Device - b.Reserve
}

// Items itemises the reserve beside so many tensor bytes.
func (b Budget) Items(tensors unit.Bytes) []gpu.ReserveItem {
	if b.Reserve < 0 {
		return b.Sheet.Reserve(tensors)
	}
	if b.Reserve == 0 {
		return nil
	}
	return []gpu.ReserveItem{{Name: "reserve", Bytes: b.Reserve, Least: b.Reserve, Level: gpu.LevelDevice, Reason: "as given", Source: "--reserve"}}
}

// Fit judges a peak. It fits if the budget holds tensors and reserve with a margin of 5 %. It is tight if the margin
// is less, or if the tensors fit beside the least that the reserve takes anywhere: the allocator's rounding depends on
// the order of sizes, the context on driver and libraries.
func (b Budget) Fit(tensors unit.Bytes) Fit {
	f := Fit{Reserve: b.Items(tensors)}
	f.Need = tensors + gpu.Total(f.Reserve)
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
