package strategy

import (
	"context"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// TestNestedBelowFlat: where layer inputs alone fill the budget, nesting finds plans that flat cannot, within budget
// when simulated; the chain's belief is never below the simulated peak, and its times are the simulated ones to the
// nanosecond.
func TestNestedBelowFlat(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, preset string
		change       func(*spec.Spec)
	}{
		{"gpt2-xl long", "gpt2-xl", func(s *spec.Spec) { s.Vocab, s.B, s.S, s.MaxS = 1000, 8, 8192, 8192 }},
		{"llama deep", "llama-3.2-1b", func(s *spec.Spec) {
			s.L, s.H, s.Heads, s.KVHeads, s.FFN, s.Vocab, s.B, s.S = 32, 1024, 16, 16, 2752, 1000, 16, 4096
		}},
		{"vit-large", "vit-large", func(s *spec.Spec) { s.B = 512 }},
		{"llama-3.2-1b amp", "llama-3.2-1b", func(s *spec.Spec) { s.Vocab, s.B, s.S, s.Precision = 2000, 16, 4096, dtype.AmpBF }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := program(t, c.preset, c.change)
			pr, low := leastFlat(t, p, sheet)
			m, err := pr.nestedModel(p)
			if err != nil {
				t.Fatal(err)
			}
			var kept int64 // the time of a step that recomputes nothing; the menu's first option keeps everything
			for _, st := range m.chain.Stages {
				kept += st.Options[0].Forward + st.Options[0].Backward
			}
			kept += m.chain.Loss[0].Time
			front, err := solve.NestedFrontier(context.Background(), m.chain)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("flat needs %v; nested frontier %v to %v, %d points", unit.Bytes(low.Peak), unit.Bytes(front.Points[0].Peak), unit.Bytes(front.Points[len(front.Points)-1].Peak), len(front.Points))
			for i := 0; i < len(front.Points); i += 1 + len(front.Points)/20 {
				sol := front.Solution(i)
				tl, err := memory.Judge(p, m.plan(sol.Nodes), sheet)
				if err != nil {
					t.Fatal(err)
				}
				if tl.Peak.Bytes > sol.Peak {
					t.Errorf("point %d: believed %v, simulated %v at %v %s", i, sol.Peak, tl.Peak.Bytes, tl.Peak.Phase, tl.Block(tl.Peak))
				}
				if extra := extraTime(tl); sol.Time-kept != extra {
					t.Errorf("point %d: believed %d ns of recompute, simulated %d", i, sol.Time-kept, extra)
				}
				t.Logf("believed %v simulated %v (%.1f%%), time %.4g believed %.4g", unit.Bytes(sol.Peak), unit.Bytes(tl.Peak.Bytes), 100*float64(sol.Peak-tl.Peak.Bytes)/float64(tl.Peak.Bytes), float64(tl.Times.Step()-tl.Times.Optimizer), float64(sol.Time))
			}
		})
	}
}
