package strategy

import (
	"context"
	"errors"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/plan"
)

// A plan that is not the fastest of its class has no certificate of that.
func TestCertifyClaimsNoMoreThanIsProved(t *testing.T) {
	p := program(t, "gpt2", nil)
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Sheet: sheet, Budget: 12e9}
	res, err := Leanest(context.Background(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Certify(context.Background(), req, res); !errors.Is(err, ErrNotCertified) {
		t.Error(c, err)
	}
	req.Class = "flat"
	if res, err = Optimize(context.Background(), p, req); err != nil {
		t.Fatal(err)
	}
	c, err := Certify(context.Background(), req, res)
	if err != nil || c.Status != "optimal" || c.Menu == nil || c.Bound == nil {
		t.Fatal(c, err)
	}
	req.HostMemory = 1
	if c, err := Certify(context.Background(), req, res); err != nil || c.Menu != nil || c.Bound != nil {
		t.Error(c, err)
	}
	if c, err := Certify(context.Background(), req, res); err != nil || c.Status != "feasible" || c.Closed.How != "none" || c.Chain != nil {
		t.Error(c, err)
	}
	req.HostMemory, req.Class = 0, "nested"
	if res, err = Optimize(context.Background(), p, req); err != nil {
		t.Fatal(err)
	}
	if c, err = Certify(context.Background(), req, res); err != nil || c.Status != "optimal" || c.Closed.How != Recurrence || c.Menu != nil || c.Chain == nil {
		t.Fatal(c, err)
	}
	if x := c.Chain; x.Bound != x.Time || x.Limit < c.TensorBudget || len(x.Layers) == 0 || len(x.Options) != len(res.nested.options) {
		t.Error(x)
	}
	res.Nested = nil // a plan of another class under this name
	if c, err := Certify(context.Background(), req, res); !errors.Is(err, ErrNotCertified) {
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
