package study

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// TestFit uses a card of compute capability 8.6: workspaces of 2·8.125 MiB and 2·1 MiB, a context of 0.7 GiB
// (751,619,276 bytes; 0.4 GiB, 429,496,729 bytes, on the leanest system) and 6 % of the tensors for the allocator's
// rounding (nothing at the least).
func TestFit(t *testing.T) {
	sheet := &gpu.Sheet{ComputeCapability: gpu.Capability{Major: 8, Minor: 6}}
	const tensors = 10 * unit.GB
	const fixed = 2*8519680 + 2*1048576 + 751619276 // bytes
	const least = fixed - 751619276 + 429496729
	const need = tensors + fixed + 600*unit.MB
	for _, c := range []struct {
		name   string
		device unit.Bytes
		want   Verdict
	}{
		// margin ≥ 5 % of the device ⇔ device ≥ need / 0.95
		{"margin of 5 %", need*20/19 + 1, Fits},
		{"margin just under 5 %", need*20/19 - 20, Tight},
		{"no margin", need, Tight},
		{"rounding does not fit", need - 1, Tight},
		{"a full context does not fit", tensors + fixed - 1, Tight},
		{"the least reserve just fits", tensors + least, Tight},
		{"one byte less", tensors + least - 1, OOM},
	} {
		f := FitOf(tensors, gpu.Budget{Device: c.device, Reserve: -1, Sheet: sheet})
		if f.Verdict != c.want || f.Need != need || f.Margin != c.device-need {
			t.Errorf("%s: %s, need %d, margin %d; want %s, %d, %d", c.name, f.Verdict, f.Need, f.Margin, c.want, need, c.device-need)
		}
	}
}

func TestFitWithReserve(t *testing.T) {
	for _, c := range []struct {
		device, reserve unit.Bytes
		want            Verdict
	}{
		{12 * unit.GB, 1 * unit.GB, Fits}, // margin 1 GB is 8.3 %
		{12 * unit.GB, 2 * unit.GB, Tight},
		{12 * unit.GB, 2*unit.GB + 1, OOM},
		{10 * unit.GB, 0, Tight},
		{10*unit.GB - 1, 0, OOM},
	} {
		f := FitOf(10*unit.GB, gpu.Budget{Device: c.device, Reserve: c.reserve, Sheet: &gpu.Sheet{}})
		if f.Verdict != c.want || f.Need != 10*unit.GB+c.reserve {
			t.Errorf("device %d, reserve %d: %s, need %d, want %s", c.device, c.reserve, f.Verdict, f.Need, c.want)
		}
	}
}
