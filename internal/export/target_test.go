package export

import (
	"context"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// TestTargets: what a target runs fits, is never faster than the unrestricted plan, and never slower than what a
// narrower target finds.
func TestTargets(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := model.LoadPreset("gpt-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	p, err := memory.NewPrograms(spec, false).Kind("full")
	if err != nil {
		t.Fatal(err)
	}
	req := strategy.Request{Budget: 40e9, Reserve: -1, Sheet: sheet, Class: "flat"}
	steps := map[string]int64{}
	for i := range Targets {
		tg := &Targets[i]
		r, err := strategy.OptimizeFor(context.Background(), p, req, tg.Expressible(spec, spec.L))
		if err != nil {
			t.Fatalf("%s: %v", tg.Name, err)
		}
		if tg.Name != "torch" {
			if _, err := tg.Lines(plan.NewFile(r.Plan, spec, "test"), spec.L); err != nil {
				t.Error(err)
			}
		}
		if unit.Bytes(r.Timeline.Peak.Bytes) > r.TensorBudget || r.Overhead() < 0 && tg.Name != "torch" {
			t.Errorf("%s: peak %d of %d, price %f", tg.Name, r.Timeline.Peak.Bytes, r.TensorBudget, r.Overhead())
		}
		steps[tg.Name] = r.Timeline.Times.Step()
		t.Logf("%-20s %-40s %+.2f%%", tg.Name, r.Shape, 100*r.Overhead())
	}
	for _, c := range [][2]string{{"hf-layers", "hf-trainer"}, {"llm-foundry", "hf-layers"}, {"checkpoint-wrapper", "hf-layers"}, {"torch", "checkpoint-wrapper"}, {"primus", "megatron"}} {
		if steps[c[0]] > steps[c[1]] {
			t.Errorf("%s is slower than %s, whose plans it can run", c[0], c[1])
		}
	}
}
