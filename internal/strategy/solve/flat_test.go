package solve

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"ckptplan/internal/thorough"
)

// TestSolveFlatEqualsEnumeration compares optimum, its least peak, smallest budget, status and certificate with the list
// of all plans.
func TestSolveFlatEqualsEnumeration(t *testing.T) {
	instances := 10000
	if !thorough.On {
		instances = 1000
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range instances {
		p := randomProblem(r, 4+3*min(1, n%20/19), 5-n%3)
		var all []outcome
		enumerate(p, func(o outcome) { all = append(all, o) })
		least := leastPeak(all)
		for _, budget := range []int64{least - 1, least, all[r.IntN(len(all))].peak, least + r.Int64N(60), 1000} {
			p.Budget = budget
			s, err := SolveFlat(context.Background(), p)
			want, ok := bestWithin(all, budget)
			if !ok {
				var infeasible *InfeasibleError
				if !errors.As(err, &infeasible) || infeasible.Needed != least || infeasible.Budget != budget {
					t.Fatalf("instance %d: budget %d: got error %v, want infeasible with least %d", n, budget, err, least)
				}
				continue
			}
			if err != nil {
				t.Fatalf("instance %d: budget %d: %v", n, budget, err)
			}
			got := outcome{s.Peak, s.Time}
			if got != want || s.Status != Optimal || s.Bound != s.Time {
				t.Fatalf("instance %d: budget %d: got %+v (%s, bound %d), want %+v\n%+v", n, budget, got, s.Status, s.Bound, want, p)
			}
			if s.Dual.Bound > want.time || s.Dual.Bound != p.LowerBound(s.Dual) {
				t.Fatalf("instance %d: budget %d: dual bound %d, added up again %d, optimum %d", n, budget, s.Dual.Bound, p.LowerBound(s.Dual), want.time)
			}
		}
	}
}

// TestFrontierEqualsEnumeration compares the exact frontier with all plans, and the rounded one with its promise.
func TestFrontierEqualsEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 1000 {
		p := randomProblem(r, 5, 4)
		var all []outcome
		enumerate(p, func(o outcome) { all = append(all, o) })
		want := paretoOf(all)
		f, err := SolveFrontier(context.Background(), p, 0)
		if err != nil {
			t.Fatalf("instance %d: %v", n, err)
		}
		if len(f.Points) != len(want) {
			t.Fatalf("instance %d: got %v, want %v", n, f.Points, want)
		}
		for k, point := range f.Points {
			s := f.Solution(k)
			if point.Peak != want[k][0] || point.Time != want[k][1] || s.Peak != point.Peak || s.Time != point.Time {
				t.Fatalf("instance %d: point %d: got %v (plan: %d, %d), want %v", n, k, point, s.Peak, s.Time, want[k])
			}
		}
		if p.Budget = want[0][0] - 1; p.Budget > 0 {
			var infeasible *InfeasibleError
			if _, err := SolveFrontier(context.Background(), p, 0); !errors.As(err, &infeasible) || infeasible.Needed != want[0][0] {
				t.Fatalf("instance %d: got %v, want infeasible", n, err)
			}
		}
		p.Budget = want[r.IntN(len(want))][0]
		rounded, err := SolveFrontier(context.Background(), p, 1+r.Int64N(9))
		if err != nil {
			t.Fatalf("instance %d: %v", n, err)
		}
		for k, point := range rounded.Points {
			if s := rounded.Solution(k); s.Peak != point.Peak || s.Time != point.Time || s.Peak > p.Budget {
				t.Fatalf("instance %d: rounded point %v is a plan of (%d, %d), budget %d", n, point, s.Peak, s.Time, p.Budget)
			}
		}
		for _, w := range want {
			if w[0] > p.Budget-rounded.Loss {
				break
			}
			kept := false
			for _, point := range rounded.Points {
				kept = kept || (point.Time <= w[1] && point.Peak <= w[0]+rounded.Loss)
			}
			if !kept {
				t.Fatalf("instance %d: no point within %d bytes of %v: %v", n, rounded.Loss, w, rounded.Points)
			}
		}
	}
}

// TestMinPeakEqualsEnumeration compares the lowest peak with all plans.
func TestMinPeakEqualsEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 500 {
		p := randomProblem(r, 4, 4)
		var all []outcome
		enumerate(p, func(o outcome) { all = append(all, o) })
		front := paretoOf(all)
		s, err := MinPeak(context.Background(), p)
		if err != nil || s.Peak != front[0][0] || s.Time != front[0][1] {
			t.Fatalf("instance %d: got %v, %v, want %v", n, s, err, front[0])
		}
	}
}
