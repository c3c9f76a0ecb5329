package study

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/strategy"
)

// TestThroughput: the winner is the best row, and accumulation reaches the global batch. The largest micro batch fits, one
// more does not.
func TestThroughput(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := model.LoadPreset("gpt2")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(spec, Request{Request: strategy.Request{Budget: 24e9, Reserve: -1, Sheet: sheet}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Throughput(t.Context(), 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range o.Batches {
		if r.Batch*r.GradAccum != 64 {
			t.Errorf("%d × %d is not 64", r.Batch, r.GradAccum)
		}
		if r.TokensPerSecond > o.Estimate.Time.TokensPerSecond {
			t.Errorf("batch %d is faster than the winner", r.Batch)
		}
	}
	if o, err = s.Largest(t.Context(), MaxBatch); err != nil {
		t.Fatal(err)
	}
	for n := o.Model.Batch; n <= o.Model.Batch+1; n++ {
		v, err := s.Vary(model.Overrides{Batch: &n})
		if err != nil {
			t.Fatal(err)
		}
		at, err := v.Optimize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if fits := at.Plan != nil && at.SmallestBudgetBytes == 0; fits != (n == o.Model.Batch) {
			t.Errorf("the largest micro batch is said to be %d: %d fits: %v", o.Model.Batch, n, fits)
		}
	}
}
