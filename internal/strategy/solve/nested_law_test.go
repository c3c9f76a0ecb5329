package solve

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNestedLaws states what holds for every chain, whatever its optimum.
func TestNestedLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		c := randomChain(r, r.IntN(2) == 0, r.IntN(2) == 0)
		for range rapid.IntRange(0, 6).Draw(rt, "more stages") {
			s := c.Stages[r.IntN(len(c.Stages))]
			s.Options = slices.Clone(s.Options)
			c.Stages = append(c.Stages, s)
		}
		richer(r, c)
		stopping(r, c)
		c.MaxForwards = 0
		least, err := MinNestedPeak(context.Background(), c)
		if err != nil {
			rt.Fatal(err)
		}
		c.Budget = least + rapid.Int64Range(0, 100).Draw(rt, "more")
		best := nestedTime(t, c)

		// The boundary of feasibility is exact.
		d := *c
		d.Budget = least
		if nestedTime(t, &d) < best {
			rt.Fatalf("least budget %d beats %d", least, c.Budget)
		}
		d.Budget--
		var infeasible *InfeasibleError
		if _, err := SolveNested(context.Background(), &d); !errors.As(err, &infeasible) || infeasible.Needed != least {
			rt.Fatalf("one byte below the least: %v", err)
		}

		// More memory, more forwards and options never cost time.
		d = *c
		d.Budget += rapid.Int64Range(1, 50).Draw(rt, "extra")
		if got := nestedTime(t, &d); got > best {
			rt.Fatalf("%d bytes more: %d, not %d", d.Budget-c.Budget, got, best)
		}
		d = *c
		last := int64(-1)
		for _, d.MaxForwards = range []int{1, 2, 3, 4, len(c.Stages) + 1, 0} {
			got := nestedTime(t, &d)
			if last >= 0 && (got < 0 || got > last) {
				rt.Fatalf("with %d forwards %d, with fewer %d", d.MaxForwards, got, last)
			}
			last = got
		}
		if last != best {
			rt.Fatalf("got %d, then %d", best, last)
		}
		d = *c
		d.Stages = slices.Clone(c.Stages)
		i := r.IntN(len(d.Stages))
		o := d.Stages[i].Options[0]
		o.Saved, o.Backward = o.Saved+r.Int64N(4)-2, o.Backward+r.Int64N(4)
		o.Saved = max(o.Saved, 0)
		d.Stages[i].Options = append(slices.Clone(d.Stages[i].Options), o)
		if got := nestedTime(t, &d); got > best {
			rt.Fatalf("with another option %d, without %d", got, best)
		}
	})
}

// TestNestedOnceIsFlat: with one forward a stage a nested plan is a flat one, and two solvers that share no code agree.
func TestNestedOnceIsFlat(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for n := range 300 {
		c := randomChain(r, n%2 == 0, n%3 == 0)
		richer(r, c)
		c.MaxForwards = 1
		p := &Problem{Base: c.Base + c.Input}
		for _, s := range c.Stages {
			b := Block{Grad: s.Grad}
			for _, o := range s.Options {
				b.Choices = append(b.Choices, Choice{
					Save: o.Saved, Forward: o.Saved + o.ForwardOverhead, Backward: o.Saved + s.Gradient + o.BackwardOverhead, Time: o.Forward + o.Backward,
				})
			}
			p.Blocks = append(p.Blocks, b)
		}
		if len(c.Loss) > 0 {
			p.Blocks = append(p.Blocks, Block{Grad: c.LossGrad, Choices: c.Loss})
		} else {
			p.HeadGrad = c.LossGrad
		}
		flat, err := SolveFrontier(context.Background(), p, 0)
		if err != nil {
			t.Fatal(err)
		}
		nested, err := NestedFrontier(context.Background(), c)
		if err != nil || len(nested.Points) != len(flat.Points) {
			t.Fatalf("chain %d: nested %v, %v, flat %v", n, nested.Points, err, flat.Points)
		}
		for k := range flat.Points {
			if nested.Points[k].Peak != flat.Points[k].Peak || nested.Points[k].Time != flat.Points[k].Time {
				t.Fatalf("chain %d: nested %v, flat %v", n, nested.Points, flat.Points)
			}
		}
	}
}

// TestNestedExtremes: no stage, zeros, a long chain, an ended context, numbers that would overflow.
func TestNestedExtremes(t *testing.T) {
	none := &Chain{Base: 3, Input: 2, Loss: []Choice{{Backward: 4, Time: 1}, {Backward: 1, Time: 2}}, Budget: 6}
	if s, err := SolveNested(context.Background(), none); err != nil || s.Loss != 1 || s.Time != 2 || s.Peak != 6 {
		t.Errorf("no stage: %+v, %v", s, err)
	}
	zeros := &Chain{Stages: []Stage{{Options: []StageOption{{}}}, {Options: []StageOption{{}}}}}
	if s, err := SolveNested(context.Background(), zeros); err != nil || s.Time != 0 || s.Peak != 0 {
		t.Errorf("zeros: %+v, %v", s, err)
	}

	// Room for one saved set: the deepest plan there is for a chain of 400 stages, rebuilt without deep recursion.
	deep := &Chain{Input: 1}
	for range 400 {
		deep.Stages = append(deep.Stages, Stage{Type: 1, Output: 1, Options: []StageOption{{Saved: 1000, Forward: 1}}})
	}
	least, err := MinNestedPeak(context.Background(), deep)
	if err != nil {
		t.Fatal(err)
	}
	deep.Budget = least
	if s, err := SolveNested(context.Background(), deep); err != nil || s.Peak != least || s.Time != 400*401/2 {
		t.Errorf("400 stages at the least memory: peak %d, time %d, %v", s.Peak, s.Time, err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	begin := time.Now()
	if _, err := SolveNested(ctx, deep); !errors.Is(err, context.Canceled) || time.Since(begin) > time.Second {
		t.Errorf("ended context: %v after %v", err, time.Since(begin))
	}
	for name, c := range map[string]*Chain{
		"negative":       {Input: -1},
		"no option":      {Stages: []Stage{{}}},
		"sum of sizes":   {Stages: []Stage{{Output: 1 << 60, Options: []StageOption{{Saved: 1 << 60}}}}},
		"sum of times":   {Stages: []Stage{{Options: []StageOption{{Forward: 1 << 60}}}}},
		"huge budget":    {Budget: 1 << 62},
		"negative grads": {Stages: []Stage{{Grad: -1, Options: []StageOption{{}}}}},
	} {
		if _, err := SolveNested(context.Background(), c); !errors.Is(err, ErrInvalidProblem) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
