package strategy

import (
	"context"
	"errors"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/thorough"
	"ckptplan/internal/unit"
)

// TestPresets: on presets of every class, at budgets between the least that works and keeping
// everything: the simulated peak is within the budget and what the solver believed, to the byte; more budget never
// costs time; no named strategy that fits is faster.
func TestPresets(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		preset string
		b, s   int
	}{
		{"gpt2", 4, 1024},
		{"gpt-1.3b", 8, 2048},
		{"llama-3.2-1b", 4, 2048},
		{"llama-3-8b", 2, 4096},
		{"mistral-7b", 2, 8192},
		{"qwen2.5-1.5b", 4, 2048},
		{"qwen3-0.6b", 8, 2048},
		{"pythia-410m", 8, 2048},
		{"opt-1.3b", 8, 1024},
		{"bert-base", 32, 512},
		{"roberta-base", 16, 512},
		{"vit-base", 128, 197},
		{"mixtral-8x7b", 1, 2048},
		{"phi-2", 4, 1024},
		{"phi-3-mini", 2, 2048},
		{"gemma-2b", 2, 1024},
		{"gemma-2-2b", 2, 2048},
		{"olmo-2-7b", 2, 2048},
		{"starcoder2-3b", 4, 1024},
		{"falcon-7b", 2, 1024},
		{"bloom-560m", 4, 1024},
		{"granite-3-8b", 1, 2048},
		{"command-r", 1, 1024},
		{"t5-base", 8, 512},
	}
	for _, c := range thorough.Or(cases, cases[:6]) {
		t.Run(c.preset, func(t *testing.T) {
			p := program(t, c.preset, func(s *spec.Spec) { s.B, s.S = c.b, c.s })
			checkBudgets(t, p, sheet)
		})
	}
}

// The same for settings of a class that no preset has.
func TestClassSettings(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, preset string
		change       func(*spec.Spec)
	}{
		{"the head reads the last layer's output itself", "opt-1.3b", func(s *spec.Spec) { s.FinalNorm = false }},
		{"norms without weights", "opt-350m", func(s *spec.Spec) { s.PlainNorm = true }},
		{"fp32 scores", "gpt2", func(s *spec.Spec) { s.UpcastAttn, s.Attention = true, "eager" }},
		{"residuals after the norms", "bloom-560m", func(s *spec.Spec) { s.NormedResidual = true }},
		{"norms of queries and keys", "phi-1.5", func(s *spec.Spec) { s.QKNorm, s.Activation = true, "gelu_fast" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkBudgets(t, program(t, c.preset, func(s *spec.Spec) {
				s.B, s.S = 8, 1024
				c.change(s)
			}), sheet)
		})
	}
}

// leastFlat prices a program's options and finds the flat plan with the lowest peak.
func leastFlat(t *testing.T, p *memory.Program, sheet *gpu.Sheet) (*space, *solve.Solution) {
	t.Helper()
	sp, err := graphs{"none": p}.space(context.Background(), Request{Sheet: sheet}, nil)
	if err != nil {
		t.Fatal(err)
	}
	low, err := solve.MinPeak(context.Background(), sp.Problem())
	if err != nil {
		t.Fatal(err)
	}
	return sp, low
}

// checkBudgets holds the flat plans of a program at budgets between the least that works and keeping everything.
func checkBudgets(t *testing.T, p *memory.Program, sheet *gpu.Sheet) {
	t.Helper()
	low, err := Leanest(context.Background(), p, Request{Sheet: sheet, Class: "flat"})
	if err != nil {
		t.Fatal(err)
	}
	none, err := memory.Judge(p, keepAll(), nil)
	if err != nil {
		t.Fatal(err)
	}
	lo, hi := low.Timeline.Peak.Bytes, none.Peak.Bytes
	last := int64(1) << 62
	for _, part := range []int64{0, 15, 40, 75, 100} {
		budget := lo + (hi-lo)*part/100
		if budget < lo {
			continue // layers are not what sets the peak
		}
		res, err := Optimize(context.Background(), p, Request{Budget: unit.Bytes(budget), Reserve: 0, Sheet: sheet, Class: "flat"})
		var no *NoPlanError
		if errors.As(err, &no) {
			t.Fatalf("%d %%: %v, though %d was said to work", part, err, lo)
		}
		if err != nil {
			t.Fatal(err)
		}
		if res.Timeline.Peak.Bytes > budget || res.Timeline.Peak.Bytes != res.Solution.Peak {
			t.Errorf("%d %%: budget %d, simulated %d, believed %d", part, budget, res.Timeline.Peak.Bytes, res.Solution.Peak)
		}
		if step := res.Timeline.Times.Step(); step > last {
			t.Errorf("%d %%: a larger budget costs time: %d after %d", part, step, last)
		} else {
			last = step
		}
		for _, a := range res.Named {
			if int64(a.Timeline.Peak.Bytes) <= budget && a.Timeline.Times.Step() < res.Timeline.Times.Step() {
				t.Errorf("%d %%: %s is faster", part, a.Name)
			}
		}
	}
}
