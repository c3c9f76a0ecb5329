package solve

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

// transformerProblem is a chain of layers with gradients that grow and a head that keeps the logits.
// Different layers vary in size and speed by a fifth; identical ones do not.
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
	p.HeadBackward = 4e9
	return p
}

// budgets are n budgets between the least peak and the peak of the fastest plan.
func budgets(b *testing.B, p *Problem, n int64) []int64 {
	least, err := MinPeak(context.Background(), p)
	if err != nil {
		b.Fatal(err)
	}
	q := *p
	q.Budget = Largest
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

// BenchmarkFlatAutocastRows solves chains whose forward binds, too: weight casts that live until the end of forward.
func BenchmarkFlatAutocastRows(b *testing.B) {
	castShare := []float64{0, 0, 0, 0.66, 0.66, 1, 1} // of the casts, what the option does not save anyway
	for _, layers := range []int{32, 126} {
		p := transformerProblem(layers, true)
		for i := range p.Blocks {
			for k := range p.Blocks[i].Choices {
				const casts = 200e6
				c := &p.Blocks[i].Choices[k]
				c.Save += int64((1 - castShare[k]) * casts)
				c.Linger = int64(castShare[k] * casts)
				c.Backward += casts
			}
		}
		b.Run(fmt.Sprintf("layers=%d", layers), func(b *testing.B) {
			all := budgets(b, p, 9)
			n := 0
			for b.Loop() {
				q := *p
				q.Budget = all[n%len(all)]
				n++
				if _, err := SolveFlat(context.Background(), &q); err != nil {
					b.Fatal(err)
				}
			}
		})
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

// transformerChain is a chain of identical layers for nested plans, with six options a layer.
func transformerChain(layers int, different bool) *Chain {
	r := rand.New(rand.NewPCG(8, uint64(layers)))
	vary := func() float64 {
		if !different {
			return 1
		}
		return 0.8 + 0.4*r.Float64()
	}
	c := &Chain{Base: 1 << 30, Input: 32e6, Loss: []Choice{{Label: "full", Forward: 3e9, Backward: 4e9}, {Label: "chunked", Backward: 1200e6, Time: 5e6}}}
	for range layers {
		s := Stage{Type: 1, Output: 32e6, Gradient: 32e6, Grad: 20e6}
		if different {
			s.Type = 0
		}
		unit, speed := 16e6*vary(), vary()
		for k, o := range menuShape[:6] {
			s.Options = append(s.Options, StageOption{
				Label: fmt.Sprint("option", k), Saved: int64(o.save * unit), Forward: int64(10e6 * speed), Backward: int64((20e6 + 1000*o.time) * speed),
				ForwardOverhead: int64(5 * unit), BackwardOverhead: int64((o.backward-o.save)*unit) + 52e6,
			})
		}
		c.Stages = append(c.Stages, s)
	}
	return c
}

// nestedBudget is a budget between the least peak and that of keeping everything, at a share of the way.
func nestedBudget(b *testing.B, c *Chain, share float64) int64 {
	least, err := MinNestedPeak(context.Background(), c)
	if err != nil {
		b.Fatal(err)
	}
	most := c.Base + c.Input + 4e9
	for _, s := range c.Stages {
		most += s.Options[0].Saved
	}
	return least + int64(share*float64(most-least))
}

// BenchmarkNested solves one tight budget of identical layers. Wanted: 32 layers in 100 ms, 126 in 1 s.
func BenchmarkNested(b *testing.B) {
	for _, layers := range []int{32, 126} {
		b.Run(fmt.Sprintf("layers=%d", layers), func(b *testing.B) {
			c := transformerChain(layers, false)
			c.Budget = nestedBudget(b, c, 0.1)
			var points int64
			for b.Loop() {
				s, err := SolveNested(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				points = s.Points
			}
			b.ReportMetric(float64(points), "points")
		})
	}
}

// BenchmarkRotor times the exact persistent class beside rotor's published table at 500 slots, on the same chain of
// different layers with one option each; loss-% is what the table's rounding costs in extra time.
func BenchmarkRotor(b *testing.B) {
	for _, layers := range []int{50, 100} {
		c := transformerChain(layers, true)
		c.Loss = nil
		for i := range c.Stages {
			c.Stages[i].Grad = 0
			c.Stages[i].Options = c.Stages[i].Options[:1]
		}
		c.Budget = nestedBudget(b, c, 0.3)
		var exact, rounded int64
		b.Run(fmt.Sprintf("layers=%d/step-functions", layers), func(b *testing.B) {
			for b.Loop() {
				s, err := SolveNested(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				exact = s.Time
			}
		})
		b.Run(fmt.Sprintf("layers=%d/500-slots", layers), func(b *testing.B) {
			for b.Loop() {
				rounded = rotorBySlots(c, 500)
			}
			if exact > 0 {
				b.ReportMetric(100*float64(rounded-exact)/float64(exact), "loss-%")
			}
		})
	}
}
