package strategy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// menuShape is the 7-option menu of a transformer layer: share of the full saved set kept, share at the backward's
// peak, extra time in microseconds. Keep all, drop norm + activation, drop the attention core, drop the MLP, …, drop
// all but the input.
var menuShape = []struct{ save, backward, time float64 }{
	{34, 42, 0}, {30, 42, 900}, {20, 42, 1700}, {16, 43.6, 3100}, {10, 44.2, 5800}, {4, 45.2, 10000}, {2, 45.8, 12600},
}

// transformerProblem is a chain of layers with gradients that grow and a head with logits kept or recomputed in
// chunks. Different layers vary in size and speed by a fifth; identical ones do not.
func transformerProblem(layers int, different bool) *Problem {
	r := rand.New(rand.NewPCG(7, uint64(layers)))
	p := &Problem{Base: 1 << 30}
	vary := func(spread float64) float64 {
		if !different {
			return 1
		}
		return 1 + spread*(2*r.Float64()-1)
	}
	for range layers {
		unit := 16e6 * vary(0.2)
		var b Block
		b.Grad = 100e6
		for k, o := range menuShape {
			b.Choices = append(b.Choices, Choice{
				Label: fmt.Sprint("option", k), Save: int64(o.save * unit), Backward: int64(o.backward*unit) + b.Grad, Forward: int64(0.3 * o.backward * unit),
				Time: int64(1000 * o.time * vary(0.2)),
			})
		}
		if !different {
			b = Block{Choices: b.Choices, Grad: b.Grad}
		}
		p.Blocks = append(p.Blocks, b)
	}
	p.Head = []Choice{{Label: "full", Backward: 4e9}, {Label: "chunked", Backward: 1200e6, Time: 5e6}}
	return p
}

// budgets are n budgets between the least peak and the peak of the fastest plan.
func budgets(b *testing.B, p *Problem, n int64) []int64 {
	least, err := MinMemory(context.Background(), p)
	if err != nil {
		b.Fatal(err)
	}
	q := *p
	q.Budget = largest
	most, err := SolveFlat(context.Background(), &q)
	if err != nil {
		b.Fatal(err)
	}
	var all []int64
	for k := range n {
		all = append(all, least.Peak+(most.Peak-least.Peak)*(k+1)/(n+1))
	}
	return all
}

// BenchmarkFlat solves one budget an iteration, over 19 budgets from tight to loose. Wanted: 126 different layers in
// 50 ms and 1000 in 1 s (mean over budgets), 126 identical ones in 10 ms.
func BenchmarkFlat(b *testing.B) {
	for _, layers := range []int{32, 126, 1000} {
		for _, different := range []bool{true, false} {
			b.Run(fmt.Sprintf("layers=%d/different=%v", layers, different), func(b *testing.B) {
				p := transformerProblem(layers, different)
				all := budgets(b, p, 19)
				var labels int64
				n := 0
				for b.Loop() {
					q := *p
					q.Budget = all[n%len(all)]
					n++
					s, err := SolveFlat(context.Background(), &q)
					if err != nil {
						b.Fatal(err)
					}
					labels = max(labels, s.Stats.Widest)
				}
				b.ReportMetric(float64(labels), "widest-labels")
			})
		}
	}
}

// BenchmarkFrontier makes all budgets' optima of 80 different layers at once, in steps of 2 MiB. Wanted: 300 ms.
func BenchmarkFrontier(b *testing.B) {
	p := transformerProblem(80, true)
	points := 0
	for b.Loop() {
		f, err := SolveFrontier(context.Background(), p, 2<<20)
		if err != nil {
			b.Fatal(err)
		}
		points = len(f.Points)
	}
	b.ReportMetric(float64(points), "points")
}
