package gpu

import (
	"slices"
	"strings"
	"testing"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/unit"
)

// TestSheets compares the embedded sheets with published figures of the cards: memory in the range that PyTorch's
// out-of-memory reports name, and bf16 (or fp16) peaks and bandwidths of the data sheets.
func TestSheets(t *testing.T) {
	want := map[string]struct {
		least, most float64 // GiB of memory
		tflops      float64
		bandwidth   int64 // bytes/s
		capability  Capability
	}{
		"T4":             {14.5, 14.75, 65, 320e9, Capability{7, 5}},
		"V100-16GB":      {15.7, 15.78, 125, 900e9, Capability{7, 0}},
		"V100-32GB":      {31.7, 31.75, 125, 900e9, Capability{7, 0}},
		"A10G":           {21.9, 21.99, 70, 600e9, Capability{8, 6}},
		"A40":            {44.3, 44.35, 149.7, 696e9, Capability{8, 6}},
		"A100-40GB":      {39.3, 39.5, 312, 1555e9, Capability{8, 0}},
		"A100-40GB-PCIe": {39.3, 39.5, 312, 1555e9, Capability{8, 0}},
		"A100-80GB":      {79.0, 79.35, 312, 2039e9, Capability{8, 0}},
		"A100-80GB-PCIe": {79.0, 79.35, 312, 1935e9, Capability{8, 0}},
		"RTX-3090":       {23.5, 24.0, 71, 936e9, Capability{8, 6}},
		"RTX-4090":       {23.5, 24.0, 165.2, 1008e9, Capability{8, 9}},
		"RTX-5090":       {31.3, 31.4, 209.5, 1792e9, Capability{12, 0}},
		"L4":             {21.9, 22.2, 121, 300e9, Capability{8, 9}},
		"L40S":           {44.3, 44.5, 362.05, 864e9, Capability{8, 9}},
		"H100-80GB":      {79.0, 79.35, 989.5, 3350e9, Capability{9, 0}},
		"H100-80GB-PCIe": {79.0, 79.35, 756, 2000e9, Capability{9, 0}},
		"H100-96GB":      {94.9, 94.98, 989.5, 3350e9, Capability{9, 0}},
		"GH200-96GB":     {94.4, 94.6, 990, 4000e9, Capability{9, 0}},
		"H200":           {139.6, 139.8, 989.5, 4800e9, Capability{9, 0}},
		"B200":           {178.3, 178.4, 2250, 7672e9, Capability{10, 0}},
	}
	sheets := Sheets()
	if len(sheets) != len(want) {
		t.Errorf("%d sheets, want %d", len(sheets), len(want))
	}
	if !slices.IsSortedFunc(sheets, func(a, b *Sheet) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	for _, s := range sheets {
		w, ok := want[s.Name]
		if !ok {
			t.Errorf("%s has no expectation", s.Name)
			continue
		}
		if gib := float64(s.TotalBytes) / float64(unit.GiB); gib < w.least || gib > w.most {
			t.Errorf("%s: %.2f GiB, want %.2f to %.2f", s.Name, gib, w.least, w.most)
		}
		if got := s.Peak(dtype.F16, true); got != int64(w.tflops*1e12) {
			t.Errorf("%s: fp16 peak %d, want %v TFLOP/s", s.Name, got, w.tflops)
		}
		if s.Bandwidth != w.bandwidth || s.ComputeCapability != w.capability {
			t.Errorf("%s: bandwidth %d, capability %v", s.Name, s.Bandwidth, s.ComputeCapability)
		}
		if s.Peaks.FP32 > s.Peaks.FP16 || strings.Contains(s.Source+s.MemorySource, "http") {
			t.Errorf("%s: fp32 above fp16, or an address as source", s.Name)
		}
	}
}

func TestPeak(t *testing.T) {
	v100, h100 := sheet(t, "V100-16GB"), sheet(t, "H100-80GB")
	for _, tc := range []struct {
		name   string
		got    int64
		tflops float64
	}{
		{"bf16 matmul without bf16 units", v100.Peak(dtype.BF16, true), 15.7},
		{"fp16 matmul", v100.Peak(dtype.F16, true), 125},
		{"bf16 matmul", h100.Peak(dtype.BF16, true), 989.5},
		{"fp32 matmul does not use tf32", h100.Peak(dtype.F32, true), 67},
		{"elementwise on bf16", h100.Peak(dtype.BF16, false), 67},
	} {
		if tc.got != int64(tc.tflops*1e12) {
			t.Errorf("%s: %d, want %v TFLOP/s", tc.name, tc.got, tc.tflops)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	const good = `name: X
aliases: [Y]
sold_as_gb: 24
memory_mib: 22000
memory_source: a report
peak_tflops: {fp32: 10, fp16: 100}
bandwidth_gb_s: 500.5
host_link_gb_s: 31.5
compute_capability: "8.6"
sms: 80
source: a data sheet
`
	s, err := Load("x.yaml", []byte(good))
	if err != nil || s.Bandwidth != 500_500_000_000 || s.TotalBytes != 23_068_672_000 { // 22000·2²⁰
		t.Fatalf("got %+v, %v", s, err)
	}
	for _, tc := range []struct{ name, old, new, says string }{
		{"unknown key", "sms: 80", "smss: 80", "x.yaml:10:1"},
		{"wrong type", "sms: 80", "sms: many", "x.yaml:10:"},
		{"second document", "source: a data sheet\n", "source: a data sheet\n---\nname: Z\n", "x.yaml"},
		{"two keys", "sms: 80", "sms: 80\nsms: 81", "sms"},
		{"negative", "bandwidth_gb_s: 500.5", "bandwidth_gb_s: -1", "bandwidth_gb_s must be a positive number"},
		{"not a number", "bandwidth_gb_s: 500.5", "bandwidth_gb_s: .nan", "bandwidth_gb_s must be a positive number"},
		{"too large", "memory_mib: 22000", "memory_mib: 9223372036854775807", "memory_mib must be a positive number"},
		{"missing", "source: a data sheet\n", "", "source is missing"},
		{"capability", `"8.6"`, `"sm_86"`, "not of the form 9.0"},
		{"all at once", "sold_as_gb: 24\nmemory_mib: 22000", "", "sold_as_gb must be a positive number; memory_mib must be"},
		{"empty", good, "\n", "empty file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Load("x.yaml", []byte(strings.Replace(good, tc.old, tc.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %+v, %v; want an error with %q", s, err, tc.says)
			}
		})
	}
}

func sheet(t *testing.T, name string) *Sheet {
	t.Helper()
	s, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
