package solve

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
)

// The bound of a certificate, added up over the rows as the certificate states them, is below the fastest plan.
func TestRowBoundIsBelowTheOptimum(t *testing.T) {
	tight, fits := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := randomProblem(r, 1+r.IntN(5), 1+r.IntN(4))
		p.Budget = p.Base + r.Int64N(200)
		s, err := SolveFlat(context.Background(), p)
		var inf *InfeasibleError
		if errors.As(err, &inf) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		fits++
		b, err := p.BestBound(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if b.Bound > s.Time {
			t.Fatalf("seed %d: a bound of %d above the optimum %d", seed, b.Bound, s.Time)
		}
		if b.Bound == s.Time {
			tight++
		}
		if p.Shared == nil && b.Bound < p.LowerBound(s.Dual) {
			t.Fatalf("seed %d: a bound of %d, the same prices prove %d", seed, b.Bound, p.LowerBound(s.Dual))
		}
	}
	if tight == 0 || tight == fits {
		t.Errorf("%d of %d bounds are tight: both kinds are to be drawn", tight, fits)
	}
}
