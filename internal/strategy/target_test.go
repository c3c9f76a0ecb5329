package strategy

import (
	"context"
	"errors"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// TestTargets: what a target runs fits, is never faster than the unrestricted plan, and never slower than what a
// narrower target finds.
func TestTargets(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, "gpt-1.3b", nil)
	req := Request{Budget: 40e9, Reserve: -1, Sheet: sheet, Class: "flat"}
	steps := map[string]int64{}
	for i := range Targets {
		tg := &Targets[i]
		r, err := OptimizeFor(context.Background(), p, req, tg)
		if err != nil {
			t.Fatalf("%s: %v", tg.Name, err)
		}
		if unit.Bytes(r.Timeline.Peak.Bytes) > r.TensorBudget || r.Price() < 0 && tg.Name != "pytorch" {
			t.Errorf("%s: peak %d of %d, price %f", tg.Name, r.Timeline.Peak.Bytes, r.TensorBudget, r.Price())
		}
		steps[tg.Name] = r.Timeline.Times.Step()
		t.Logf("%-20s %-40s %+.2f%%", tg.Name, r.Shape, 100*r.Price())
	}
	for _, c := range [][2]string{{"hf-layers", "hf-trainer"}, {"llm-foundry", "hf-layers"}, {"checkpoint-wrapper", "llm-foundry"}, {"pytorch", "checkpoint-wrapper"}, {"primus", "megatron"}} {
		if steps[c[0]] > steps[c[1]] {
			t.Errorf("%s is slower than %s, whose plans it can run", c[0], c[1])
		}
	}
}

// TestThroughput: the winner is the best row, rows fit, and accumulation reaches the global batch.
func TestThroughput(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.LoadPreset("gpt2")
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Budget: 24e9, Reserve: -1, Sheet: sheet}
	rows, best, err := Throughput(context.Background(), s, req, 64)
	if err != nil || best < 0 {
		t.Fatal(err, best)
	}
	for _, r := range rows {
		if r.Batch*r.Accum != 64 {
			t.Errorf("%d × %d is not 64", r.Batch, r.Accum)
		}
		if r.Result != nil && r.TokensPerSecond > rows[best].TokensPerSecond {
			t.Errorf("batch %d is faster than the winner", r.Batch)
		}
		if r.Result != nil {
			t.Logf("batch %d × %d: %.0f tokens/s (ideal %.0f), peak %v", r.Batch, r.Accum, r.TokensPerSecond, r.Ideal, unit.Bytes(r.Result.Timeline.Peak.Bytes))
		}
	}
	n, err := MaxBatch(context.Background(), s, req)
	if err != nil {
		t.Fatal(err)
	}
	at := func(batch int) (*Result, error) {
		c := *s
		c.B = batch
		p, err := programOf(&c)
		if err != nil {
			t.Fatal(err)
		}
		return Optimize(context.Background(), p, req)
	}
	if res, err := at(n); err != nil || unit.Bytes(res.Timeline.Peak.Bytes) > res.TensorBudget {
		t.Errorf("batch %d: %v", n, err)
	}
	var no *NoPlanError
	if _, err := at(n + 1); !errors.As(err, &no) {
		t.Errorf("batch %d fits too: %v", n+1, err)
	}
	t.Logf("Largest batch %d", n)
}
