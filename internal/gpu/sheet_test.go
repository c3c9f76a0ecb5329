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
		bandwidth   int64  // bytes/s
		arch        string // compute capability, or AMD's instruction set
	}{
		"T4":                {14.5, 14.75, 65, 320e9, "7.5"},
		"V100-16GB":         {15.7, 15.78, 125, 900e9, "7.0"},
		"V100-32GB":         {31.7, 31.75, 125, 900e9, "7.0"},
		"A10G":              {21.9, 21.99, 70, 600e9, "8.6"},
		"A40":               {44.3, 44.35, 149.7, 696e9, "8.6"},
		"A100-40GB":         {39.3, 39.5, 312, 1555e9, "8.0"},
		"A100-40GB-PCIe":    {39.3, 39.5, 312, 1555e9, "8.0"},
		"A100-80GB":         {79.0, 79.35, 312, 2039e9, "8.0"},
		"A100-80GB-PCIe":    {79.0, 79.35, 312, 1935e9, "8.0"},
		"RTX-3090":          {23.5, 24.0, 71, 936e9, "8.6"},
		"RTX-4090":          {23.5, 24.0, 165.2, 1008e9, "8.9"},
		"RTX-5090":          {31.3, 31.4, 209.5, 1792e9, "12.0"},
		"L4":                {21.9, 22.2, 121, 300e9, "8.9"},
		"L40S":              {44.3, 44.5, 362.05, 864e9, "8.9"},
		"H100-80GB":         {79.0, 79.35, 989.5, 3350e9, "9.0"},
		"H100-80GB-PCIe":    {79.0, 79.35, 756, 2000e9, "9.0"},
		"H100-96GB":         {94.9, 94.98, 989.5, 3350e9, "9.0"},
		"GH200-96GB":        {94.4, 94.6, 990, 4000e9, "9.0"},
		"H200":              {139.6, 139.8, 989.5, 4800e9, "9.0"},
		"B200":              {178.3, 178.4, 2250, 7672e9, "10.0"},
		"K80":               {11.17, 11.18, 4.37, 240e9, "3.7"},
		"P40":               {22.37, 22.39, 11.76, 346e9, "6.1"},
		"P100-16GB":         {15.89, 15.90, 9.3, 732e9, "6.0"},
		"GTX-1080-Ti":       {10.91, 10.92, 11.34, 484e9, "6.1"},
		"TITAN-Xp":          {11.90, 11.91, 12.15, 547.7e9, "6.1"},
		"RTX-2080-Ti":       {10.75, 10.77, 53.8, 616e9, "7.5"},
		"TITAN-RTX":         {23.64, 23.65, 130.5, 672e9, "7.5"},
		"Quadro-RTX-8000":   {47.46, 47.47, 130.5, 672e9, "7.5"},
		"RTX-A4000":         {15.60, 15.62, 76.7, 448e9, "8.6"},
		"RTX-A5000":         {23.54, 23.58, 111.1, 768e9, "8.6"},
		"RTX-A6000":         {47.53, 47.54, 154.8, 768e9, "8.6"},
		"A10":               {21.97, 22.0, 125, 600e9, "8.6"},
		"A30":               {23.49, 23.53, 165, 933e9, "8.0"},
		"A800-80GB":         {79.32, 79.34, 312, 2039e9, "8.0"},
		"RTX-3060":          {11.65, 11.76, 25.5, 360e9, "8.6"},
		"RTX-3070":          {7.57, 7.78, 40.6, 448e9, "8.6"},
		"RTX-3080-10GB":     {9.77, 9.78, 59.5, 760e9, "8.6"},
		"RTX-3080-12GB":     {11.63, 11.84, 61.3, 912e9, "8.6"},
		"RTX-5060-Ti-8GB":   {7.5, 7.96, 47.4, 448e9, "12.0"},
		"RTX-3080-Ti":       {11.63, 11.77, 68.2, 912e9, "8.6"},
		"RTX-4060":          {7.62, 7.63, 30.2, 272e9, "8.9"},
		"RTX-4060-Ti-8GB":   {7.62, 7.63, 44.1, 288e9, "8.9"},
		"RTX-4060-Ti-16GB":  {15.56, 15.67, 44.1, 288e9, "8.9"},
		"RTX-4070":          {11.59, 11.72, 58.3, 504e9, "8.9"},
		"RTX-4070-Ti-SUPER": {15.56, 15.60, 88.2, 672e9, "8.9"},
		"RTX-4080":          {15.57, 15.67, 97.5, 716.8e9, "8.9"},
		"RTX-4080-SUPER":    {15.57, 15.58, 104.4, 736e9, "8.9"},
		"L40":               {44.39, 44.41, 181.05, 864e9, "8.9"},
		"RTX-6000-Ada":      {44.42, 47.48, 364.2, 960e9, "8.9"},
		"H800-80GB":         {79.0, 79.35, 989.5, 3350e9, "9.0"},
		"H20-96GB":          {94.99, 95.01, 148, 4000e9, "9.0"},
		"H100-NVL":          {92.99, 93.01, 835.5, 3900e9, "9.0"},
		"GB200":             {184.0, 185.0, 2500, 8000e9, "10.0"},
		"RTX-5060":          {7.5, 7.96, 38.4, 448e9, "12.0"},
		"RTX-5060-Ti-16GB":  {15.44, 15.48, 47.4, 448e9, "12.0"},
		"RTX-5070":          {11.48, 11.94, 61.7, 672e9, "12.0"},
		"RTX-5070-Ti":       {15.44, 15.48, 87.9, 896e9, "12.0"},
		"RTX-5080":          {15.46, 15.47, 112.6, 960e9, "12.0"},
		"RTX-PRO-6000":      {94.96, 94.98, 503.8, 1792e9, "12.0"},
		"MI210":             {63.98, 63.99, 181, 1638e9, "gfx90a"},
		"MI250X":            {63.98, 63.99, 191.5, 1638e9, "gfx90a"},
		"MI300X":            {191.98, 191.99, 1307.4, 5300e9, "gfx942"},
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
		if s.Bandwidth != w.bandwidth || s.Architecture() != w.arch {
			t.Errorf("%s: bandwidth %d, architecture %s", s.Name, s.Bandwidth, s.Architecture())
		}
		if s.Peaks.FP16 > 0 && s.Peaks.FP32 > s.Peaks.FP16 || strings.Contains(s.Source+s.MemorySource, "http") {
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
		{"fp16 matmul without tensor cores", sheet(t, "P40").Peak(dtype.F16, true), 11.76},
		{"elementwise on bf16", h100.Peak(dtype.BF16, false), 67},
	} {
		if tc.got != int64(tc.tflops*1e12) {
			t.Errorf("%s: %d, want %v TFLOP/s", tc.name, tc.got, tc.tflops)
		}
	}
}

// flash-attn and PyTorch's flash kernel start at Ampere.
func TestRunsFlash(t *testing.T) {
	for name, want := range map[string]bool{"K80": false, "V100-16GB": false, "T4": false, "TITAN-RTX": false, "A30": true, "RTX-3060": true, "RTX-5080": true, "MI300X": true} {
		if got := sheet(t, name).RunsFlash(); got != want {
			t.Errorf("%s: %v", name, got)
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
		{"gfx", `compute_capability: "8.6"`, "gfx: 942", "not of the form gfx942"},
		{"both vendors", "sms: 80", "sms: 80\ngfx: gfx942", "give one of them"},
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
