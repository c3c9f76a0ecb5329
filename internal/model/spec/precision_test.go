package spec

import (
	"testing"

	"ckptplan/internal/model/dtype"
)

// TestSettlePrecision: settings that mean the same are written the same way, so that plans made for one fit the other.
func TestSettlePrecision(t *testing.T) {
	for _, tt := range []struct {
		dtype             dtype.Precision
		weights, autocast string
		want              string
	}{
		{"bf16", "", "", "bf16"},
		{"amp-bf16", "", "", "amp-bf16"},
		{"bf16", "fp32", "", "fp32"},
		{"fp32", "", "fp16", "amp-fp16"},
		{"amp-fp16", "", "off", "fp32"},
		{"amp-bf16", "bf16", "", "bf16+amp-bf16"},
		{"bf16", "", "bf16", "bf16+amp-bf16"},
		{"fp32", "bf16", "bf16", "bf16+amp-bf16"},
		{"bf16", "", "fp16", "bf16+amp-fp16"},
		{"bf16", "bf16", "off", "bf16"},
	} {
		s := &Spec{Precision: tt.dtype, Weights: tt.weights, Autocast: tt.autocast}
		for range 2 { // settled settings stay
			s.SettlePrecision()
			if got := s.PrecisionName(); got != tt.want || s.Weights != "" {
				t.Errorf("dtype %s, weights %q, autocast %q: %s, weights %q, want %s", tt.dtype, tt.weights, tt.autocast, got, s.Weights, tt.want)
			}
		}
	}
}
