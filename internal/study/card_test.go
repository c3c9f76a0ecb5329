package study

import (
	"errors"
	"strings"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/strategy"
)

// PyTorch's flash kernel and flash-attn run from Ampere on; bf16 is emulated before, and then sdpa is math.
func TestCardLimits(t *testing.T) {
	for _, tc := range []struct{ card, dtype, attention, says string }{
		{"t4", "bf16", "sdpa", "T4 (compute capability 7.5) has no bf16: PyTorch emulates it, and sdpa falls back to math"},
		{"v100-32gb", "amp-bf16", "eager", "V100-32GB (compute capability 7.0) has no bf16: PyTorch emulates it; fp16"},
		{"v100-32gb", "fp16", "sdpa", "sdpa is counted with its flash kernel, which needs compute capability 8.0: V100-32GB (7.0)"},
		{"v100-32gb", "fp16", "eager", ""},
		{"t4", "fp32", "sdpa", ""},
		{"a100-80gb", "bf16", "flash2", ""},
		{"3090", "bf16", "sdpa", ""},
		{"mi300x", "bf16", "sdpa", "MI300X (gfx942) has kernels of ROCm"},
		{"t4", "fp16", "flash2", "refused: attention flash2 needs compute capability 8.0 (Ampere), and T4 has 7.5: use sdpa or eager"},
		{"2080 ti", "bf16", "flash2", "refused: attention flash2 needs compute capability 8.0 (Ampere), and RTX-2080-Ti has 7.5: use sdpa or eager"},
	} {
		t.Run(strings.Join([]string{tc.card, tc.dtype, tc.attention}, " "), func(t *testing.T) {
			sheet, err := gpu.Lookup(tc.card)
			if err != nil {
				t.Fatal(err)
			}
			spec := studyOf(t, "{arch: llama, L: 1, S: 8, H: 64, B: 1, heads: 2, dtype: "+tc.dtype+", attention: "+tc.attention+"}", gpuOf(t, "a100-80gb")).Spec
			s, err := New(spec, Request{Request: strategy.Request{Reserve: -1, Sheet: sheet}})
			got := ""
			var refused *CardError
			switch {
			case errors.As(err, &refused):
				got = "refused: " + refused.Error()
			case err != nil:
				t.Fatal(err)
			default:
				got = strings.Join(s.cardMistakes(), "\n")
			}
			if got != tc.says && (tc.says == "" || !strings.Contains(got, tc.says)) {
				t.Errorf("%q, want %q", got, tc.says)
			}
		})
	}
}

func gpuOf(t *testing.T, name string) *gpu.Sheet {
	t.Helper()
	s, err := gpu.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
