package gpu

import (
	"math"
	"testing"

	"ckptplan/internal/model/dtype"
)

func TestOpTime(t *testing.T) {
	a100 := sheet(t, "A100-80GB")
	for _, tc := range []struct {
		name         string
		flops, bytes int64
		dtype        dtype.DType
		matmul       bool
		want         int64
	}{
		// 2·8192³ FLOP at 0.75·312 TFLOP/s is 4.699 ms; its 3·8192²·2 B take 0.25 ms
		{"bf16 matmul", 1_099_511_627_776, 402_653_184, dtype.BF16, true, 4_698_768},
		// the same at 0.75·19.5 TFLOP/s
		{"fp32 matmul", 1_099_511_627_776, 805_306_368, dtype.F32, true, 75_180_283},
		// 1 GiB at 0.8·2039 GB/s is 0.658 ms
		{"elementwise", 1 << 29, 1 << 30, dtype.BF16, false, 658_253},
		// a matrix product of few rows is bound by reading its weight: 8192²·2 B at 0.8·2039 GB/s
		{"thin matmul", 2 * 16 * 8192 * 8192, 8192 * 8192 * 2, dtype.BF16, true, 82_282},
		{"small kernel", 1000, 1000, dtype.BF16, false, 3000},
		{"view", 0, 0, dtype.BF16, false, 0},
		{"overflow", math.MaxInt64, 0, dtype.F32, false, 630_657_917_049_900}, // (2⁶³−1) / (0.75·19.5e12) s: the product with 10⁹ has 93 bits
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := a100.OpTime(tc.flops, tc.bytes, tc.dtype, tc.matmul); got != tc.want {
				t.Errorf("got %d ns, want %d", got, tc.want)
			}
		})
	}
}

// TestOpTimeMeasured: the best measured bf16 matrix products (table of maximum achievable matmul FLOPS in Bekman's
// Machine Learning Engineering Open Book) are faster than the model, by no more than 15 %.
func TestOpTimeMeasured(t *testing.T) {
	for _, tc := range []struct {
		gpu     string
		m, n, k int64
		tflops  float64
	}{
		{"A100-80GB", 6912, 16384, 2048, 267.9},
		{"A100-80GB-PCIe", 2304, 5120, 1536, 256.4},
		{"H100-80GB", 6144, 17920, 2816, 792.1},
		{"GH200-96GB", 11264, 19712, 1536, 821.0},
	} {
		t.Run(tc.gpu, func(t *testing.T) {
			flops, bytes := 2*tc.m*tc.n*tc.k, 2*(tc.m*tc.k+tc.k*tc.n+tc.m*tc.n)
			best := float64(flops) / tc.tflops / 1e3 // ns
			got := float64(sheet(t, tc.gpu).OpTime(flops, bytes, dtype.BF16, true))
			if ratio := got / best; ratio < 1 || ratio > 1.15 {
				t.Errorf("%.0f ns, best measured %.0f: ratio %.3f", got, best, ratio)
			}
		})
	}
}

func TestCopyTime(t *testing.T) {
	// 25.2 GB at 0.8·31.5 GB/s
	if got := sheet(t, "A100-80GB").CopyTime(25_200_000_000); got != 1_000_000_000 {
		t.Errorf("got %d ns, want 1 s", got)
	}
	if got := sheet(t, "A100-80GB").CopyTime(1); got != 3000 {
		t.Errorf("one byte: %d ns, want one launch", got)
	}
	if got := sheet(t, "A100-80GB").CopyTime(0); got != 0 {
		t.Errorf("nothing: %d ns", got)
	}
}
