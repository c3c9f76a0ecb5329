package strategy

import (
	"context"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/strategy/solve"
)

// BenchmarkMenu405B prices the whole menu of Llama-3.1-405B by simulation.
func BenchmarkMenu405B(b *testing.B) {
	p, sheet := llama405B(b)
	for b.Loop() {
		if _, err := (graphs{"none": p}).space(context.Background(), Request{Sheet: sheet}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlat405B solves its 126 identical layers with the menu at hand, the mean over 19 budgets.
func BenchmarkFlat405B(b *testing.B) {
	p, sheet := llama405B(b)
	prob, low, top, options := atHand(b, p, sheet)
	b.ReportMetric(float64(options), "options")
	n := 0
	for b.Loop() {
		prob.Budget = low + (top-low)*int64(1+n%19)/20
		n++
		if _, err := solve.SolveFlat(context.Background(), prob); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlatAutocast solves the 48 layers of GPT-2 XL under autocast, where the forward of many layers binds beside
// the backward: the mean over 9 budgets. What the search leaves open is reported as a share of the step's extra time.
func BenchmarkFlatAutocast(b *testing.B) {
	sheet, err := gpu.Lookup("b200")
	if err != nil {
		b.Fatal(err)
	}
	p := program(b, "gpt2-xl", func(s *spec.Spec) { s.B, s.S, s.Precision = 8, 512, "amp-bf16" })
	prob, low, top, _ := atHand(b, p, sheet)
	n := 0
	var open, extra int64
	for b.Loop() {
		prob.Budget = low + (top-low)*int64(1+n%9)/10
		n++
		s, err := solve.SolveFlat(context.Background(), prob)
		if err != nil {
			b.Fatal(err)
		}
		open, extra = open+s.Time-s.Bound, extra+s.Time
	}
	b.ReportMetric(100*float64(open)/float64(extra), "%open")
}

// atHand prices a program's menu and gives the problem with the least and the greatest peak that budgets lie between.
func atHand(b *testing.B, p *memory.Program, sheet *gpu.Sheet) (prob *solve.Problem, low, top int64, options int) {
	b.Helper()
	sp, err := graphs{"none": p}.space(context.Background(), Request{Sheet: sheet}, nil)
	if err != nil {
		b.Fatal(err)
	}
	prob = sp.Problem()
	least, err := solve.MinPeak(context.Background(), prob)
	if err != nil {
		b.Fatal(err)
	}
	return prob, least.Peak, sp.Untreated.Peak.Bytes, len(sp.Options)
}

func llama405B(b *testing.B) (p *memory.Program, sheet *gpu.Sheet) {
	b.Helper()
	sheet, err := gpu.Lookup("b200")
	if err != nil {
		b.Fatal(err)
	}
	return program(b, "llama-3.1-405b", func(s *spec.Spec) { s.B, s.S = 4, 8192; s.Train.Optimizer = "sgd" }), sheet
}
