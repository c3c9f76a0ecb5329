package strategy

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/plan"
)

// The bound of a certificate, added up over the rows as the certificate states them, is below the fastest plan.
func TestRowBoundIsBelowTheOptimum(t *testing.T) {
	tight, fits := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := randomProblem(r, 1+r.IntN(5), 1+r.IntN(4))
		p.Segments = nil
		for i := range p.Blocks {
			p.Blocks[i].Waiting = 0
		}
		if len(p.Head) > 1 {
			p.Head = p.Head[:1]
		}
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
		b := bestBound(p, s)
		if b.Bound > s.Time {
			t.Fatalf("seed %d: a bound of %d above the optimum %d", seed, b.Bound, s.Time)
		}
		if b.Bound == s.Time {
			tight++
		}
		if s.Dual.Forward != nil && b.Bound < p.LowerBound(s.Dual) {
			t.Fatalf("seed %d: a bound of %d, the same prices prove %d", seed, b.Bound, p.LowerBound(s.Dual))
		}
	}
	if tight == 0 || tight == fits {
		t.Errorf("%d of %d bounds are tight: both kinds are to be drawn", tight, fits)
	}
}

// A plan that is not the fastest of its class has no certificate of that.
func TestCertifyClaimsNoMoreThanIsProved(t *testing.T) {
	p := program(t, "gpt2", nil)
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Sheet: sheet, Budget: 12e9}
	res, err := Leanest(context.Background(), p, req, -1)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Certify(p, req, res); !errors.Is(err, ErrNotCertified) {
		t.Error(c, err)
	}
	req.Class = "flat"
	if res, err = Optimize(context.Background(), p, req); err != nil {
		t.Fatal(err)
	}
	c, err := Certify(p, req, res)
	if err != nil || c.Status != "optimal" || c.Menu == nil || c.Bound == nil {
		t.Fatal(c, err)
	}
	req.HostMemory = 1
	if c, err := Certify(p, req, res); err != nil || c.Menu != nil || c.Bound != nil {
		t.Error(c, err)
	}
	if c, err := Certify(p, req, res); err != nil || c.Status != "feasible" || c.Closed.How != "none" || c.Chain != nil {
		t.Error(c, err)
	}
	req.HostMemory, req.Class = 0, "nested"
	if res, err = Optimize(context.Background(), p, req); err != nil {
		t.Fatal(err)
	}
	if c, err = Certify(p, req, res); err != nil || c.Status != "optimal" || c.Closed.How != Recurrence || c.Menu != nil || c.Chain == nil {
		t.Fatal(c, err)
	}
	if x := c.Chain; x.Bound != x.Time || x.Limit < c.TensorBudget || x.Bridges || len(x.Layers) == 0 || len(x.Options) != len(res.nested.options) {
		t.Error(x)
	}
	res.Nested = nil // a plan of another class under this name
	if c, err := Certify(p, req, res); !errors.Is(err, ErrNotCertified) {
		t.Error(c, err)
	}
}

func TestAlikeLayersShareARow(t *testing.T) {
	groups := alike(6, func(i int) int { return []int{7, 8, 8, 7, 9, 9}[i] })
	var got []string
	for _, g := range groups {
		got = append(got, plan.FormatLayers(g))
	}
	if len(got) != 3 || got[0] != "0,3" || got[1] != "1-2" || got[2] != "4-5" {
		t.Error(got)
	}
}
