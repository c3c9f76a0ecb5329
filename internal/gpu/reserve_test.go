package gpu

import (
	"testing"

	"pgregory.net/rapid"

	"ckptplan/internal/unit"
)

func TestReserve(t *testing.T) {
	for _, tc := range []struct {
		name      string
		sheet     *Sheet
		workspace unit.Bytes // both cuBLAS handles
	}{
		{"A10G", sheet(t, "A10G"), 2 * 8_519_680}, // seen on an A10G, pytorch issue 95668
		{"L4", sheet(t, "L4"), 2 * 8_519_680},
		{"H100", sheet(t, "H100-80GB"), 2 * 33_554_432},
		{"B200", sheet(t, "B200"), 2 * 33_554_432},
		{"MI300X", sheet(t, "MI300X"), 2 * 134_217_728},
		{"MI250X", sheet(t, "MI250X"), 2 * 33_554_432},
		{"no sheet", nil, 2 * 33_554_432},
	} {
		t.Run(tc.name, func(t *testing.T) {
			items := tc.sheet.Reserve(10 * unit.GB)
			want := []unit.Bytes{
				tc.workspace,
				2_097_152,   // two handles of 1 MiB
				600_000_000, // 6 % of 10 GB
				751_619_276, // 0.7 GiB
			}
			for i, it := range items {
				if it.Bytes != want[i] || it.Reason == "" || it.Source == "" {
					t.Errorf("%s: %d bytes (%s; %s), want %d", it.Name, it.Bytes, it.Reason, it.Source, want[i])
				}
			}
			if got := Least(items); got != tc.workspace+2_097_152+429_496_729 { // a context of 0.4 GiB, no rounding
				t.Errorf("least %d", got)
			}
			if got := Total(items); got != tc.workspace+2_097_152+600_000_000+751_619_276 {
				t.Errorf("total %d", got)
			}
		})
	}
}

func TestTensorBudget(t *testing.T) {
	if got := sheet(t, "T4").TensorBudget(unit.MiB); got != 0 {
		t.Errorf("a budget below the context leaves %d bytes, want 0", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(append(Sheets(), nil)).Draw(t, "sheet")
		total := unit.Bytes(rapid.Int64Range(1<<30, 1<<50).Draw(t, "total"))
		fits := func(tensors unit.Bytes) bool { return tensors+Total(s.Reserve(tensors)) <= total }
		if got := s.TensorBudget(total); !fits(got) || fits(got+1) {
			t.Fatalf("TensorBudget(%d) = %d is not the most that fits", total, got)
		}
	})
}
