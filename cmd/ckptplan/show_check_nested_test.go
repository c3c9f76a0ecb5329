package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ckptplan/internal/certificate"
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/thorough"
	"ckptplan/internal/unit"
)

// certifiedNested finds the fastest nested plan of a preset and returns its plan file, read back from what is written. The
// budget lies at a share of the way from the least that a nested plan needs to the least that a flat one does.
func certifiedNested(t *testing.T, preset string, change func(*spec.Spec), share float64, maxForwards int) (*spec.Spec, *plan.File, *gpu.Sheet) {
	t.Helper()
	s, err := model.LoadPreset(preset)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	g, err := model.Build(s, build.Options{Checkpoint: "full"})
	if err != nil {
		t.Fatal(err)
	}
	p := memory.Compile(g)
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	flat, err := strategy.Leanest(ctx, p, strategy.Request{Sheet: sheet, Class: "flat"})
	if err != nil {
		t.Fatal(err)
	}
	req := strategy.Request{Sheet: sheet, Class: "nested", Budget: 1, MaxForwards: maxForwards}
	var none *strategy.NoPlanError
	if _, err := strategy.Optimize(ctx, p, req); !errors.As(err, &none) {
		t.Fatal(err)
	}
	req.Budget = none.Smallest + unit.Bytes(share*float64(unit.Bytes(flat.Timeline.Peak.Bytes)-none.Smallest))
	res, err := strategy.Optimize(ctx, p, req)
	if err != nil {
		t.Fatal(err)
	}
	f := plan.NewFile(res.Plan, s, "test")
	f.Class, f.Budget = res.Class, req.Budget
	if f.Certificate, err = strategy.Certify(context.Background(), req, res); err != nil {
		t.Fatal(err)
	}
	return s, planBack(t, planText(t, f)), sheet
}

// deep is a model in which the layers' inputs alone fill a budget.
func deep(s *spec.Spec) {
	s.L, s.H, s.Heads, s.KVHeads, s.FFN, s.Vocab, s.B, s.S = 32, 1024, 16, 16, 2752, 1000, 16, 4096
}

func TestNestedCertificatesHold(t *testing.T) {
	lora := &spec.LoRA{Rank: 16, Alpha: 32, DType: "fp32", Targets: []string{"q_proj", "v_proj"}}
	for i, c := range []struct {
		name, preset string
		change       func(*spec.Spec)
		forwards     int
	}{
		{"gpt2", "gpt2", func(s *spec.Spec) { s.Vocab, s.B = 1000, 64 }, 0},
		{"gpt2 eager", "gpt2", func(s *spec.Spec) { s.Attention = "eager"; s.Vocab, s.S, s.B = 1000, 512, 32 }, 0},
		{"gpt2-xl long", "gpt2-xl", func(s *spec.Spec) { s.Vocab, s.B, s.S, s.MaxS = 1000, 8, 8192, 8192 }, 3},
		{"gpt2 accumulated", "gpt2", func(s *spec.Spec) { s.Train.GradAccum, s.Vocab, s.B = 4, 1000, 64 }, 0},
		{"llama deep", "llama-3.2-1b", deep, 0},
		{"llama deep twice", "llama-3.2-1b", deep, 2},
		{"llama-3.2-1b amp", "llama-3.2-1b", func(s *spec.Spec) { s.Vocab, s.B, s.S, s.Precision = 2000, 16, 4096, dtype.AmpBF }, 0},
		{"llama-3-8b lora", "llama-3-8b", func(s *spec.Spec) { s.Train.LoRA, s.Train.Finetune, s.B = lora, "lora", 16 }, 0},
		{"vit-large", "vit-large", func(s *spec.Spec) { s.B = 512 }, 0},
		{"bert-large amp", "bert-large", func(s *spec.Spec) { s.Precision = dtype.AmpBF; s.Vocab, s.S, s.B = 1000, 512, 64 }, 0},
		{"gemma-2 windows", "gemma-2-2b", func(s *spec.Spec) { s.S, s.Vocab = 8192, 1000; s.Attention = "eager" }, 2},
		{"falcon eager", "falcon-7b", func(s *spec.Spec) { s.Attention, s.B, s.Vocab, s.Train.Optimizer = "eager", 4, 1000, "sgd" }, 0},
	} {
		if !thorough.On && i%3 != 0 {
			continue
		}
		for _, share := range thorough.Or([]float64{0, 0.1, 0.5, 1.2}, []float64{0.1}) {
			t.Run(fmt.Sprintf("%s %.0f%%", c.name, 100*share), func(t *testing.T) {
				s, f, sheet := certifiedNested(t, c.preset, c.change, share, c.forwards)
				r, err := certificate.Check(context.Background(), s, f, sheet)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Err(); err != nil {
					t.Error(err)
				}
				if n := r.Count(certificate.Unproved); n > 0 {
					t.Errorf("%d claims unproved: %v", n, r.Findings)
				}
				// Where the rows count more for the plan than the budget, though it fits, they may let a plan pass that does not.
				x := f.Certificate.Chain
				loose := x.Peak > f.Certificate.TensorBudget && x.Time-x.Bound < f.Certificate.Time.Extra/1000
				if f.Certificate.Status != "optimal" && !loose || f.Certificate.Time.Extra == 0 {
					t.Errorf("%s, with %d ns of recompute, bound %d of %d", f.Certificate.Status, f.Certificate.Time.Extra, x.Bound, x.Time)
				}
			})
		}
	}
}

// Every claim of a nested plan's certificate is caught when it is changed, under its own name.
func TestNestedCertificateChangesAreCaught(t *testing.T) {
	s, f, sheet := certifiedNested(t, "llama-3.2-1b", deep, 0.3, 3)
	text := planText(t, f)
	row := func(c *plan.Certificate, option string) *plan.ChainPrice {
		for k := range c.Chain.Options {
			if o := &c.Chain.Options[k]; o.Option.Name == option {
				return &o.Rows[0]
			}
		}
		t.Fatalf("no option %s", option)
		return nil
	}
	if f.Certificate.Status != "optimal" || !slices.ContainsFunc(f.Nodes, func(n plan.Node) bool { return n.Segment }) {
		t.Fatalf("%s: %v", f.Certificate.Status, f.Nodes)
	}
	for _, c := range []struct {
		name, claim string
		change      func(f *plan.File, c *plan.Certificate)
	}{
		{"lower time", "chain.time_ns", func(_ *plan.File, c *plan.Certificate) { c.Chain.Time--; c.Chain.Bound-- }},
		{"lower extra time", "time.extra_ns", func(_ *plan.File, c *plan.Certificate) { c.Time.Extra-- }},
		{"lower bound", "chain.bound_ns", func(_ *plan.File, c *plan.Certificate) { c.Chain.Bound-- }},
		{"lower bound without a status", "status", func(_ *plan.File, c *plan.Certificate) { c.Chain.Bound-- }},
		{"feasible", "status", func(_ *plan.File, c *plan.Certificate) { c.Status = "feasible" }},
		{"how", "closed", func(_ *plan.File, c *plan.Certificate) { c.Closed.How = "none" }},
		{"no proof", "status", func(_ *plan.File, c *plan.Certificate) { c.Chain = nil }},
		{"peak", "peak.tensor_bytes", func(_ *plan.File, c *plan.Certificate) { c.Peak.Bytes-- }},
		{"peak by the rows", "chain.peak_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Peak-- }},
		{"limit", "chain.limit_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Limit-- }},
		{"reserve", "budget_bytes", func(_ *plan.File, c *plan.Certificate) { c.Reserve++ }},
		{"lower budget", "tensor_budget_bytes", func(f *plan.File, c *plan.Certificate) {
			by := c.TensorBudget - c.Peak.Bytes + 1
			c.TensorBudget, c.Budget, f.Budget = c.TensorBudget-by, c.Budget-by, f.Budget-by
		}},
		{"higher budget", "chain.bound_ns", func(f *plan.File, c *plan.Certificate) { // a faster plan fits that
			c.TensorBudget, c.Budget, f.Budget, c.Chain.Limit = c.TensorBudget+1<<30, c.Budget+1<<30, f.Budget+1<<30, c.TensorBudget+1<<30
		}},
		{"bridges", "chain.bridges", func(_ *plan.File, c *plan.Certificate) { c.Chain.Bridges = true }},
		{"fewer forwards than the plan's", "chain.max_forwards", func(_ *plan.File, c *plan.Certificate) { c.Chain.MaxForwards = 1 }},
		{"base", "chain.base_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Base++ }},
		{"input", "chain.input_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Input++ }},
		{"floor", "chain.floor_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Floor++ }},
		{"head forward", "chain.head.forward_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Head.Forward++ }},
		{"head backward", "chain.head.backward_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Head.Backward-- }},
		{"head gradient", "chain.head.gradient_bytes", func(_ *plan.File, c *plan.Certificate) { c.Chain.Head.Gradient++ }},
		{"head time", "chain.head.time_ns", func(_ *plan.File, c *plan.Certificate) { c.Chain.Head.Time++ }},
		{"output", "chain output_bytes of layer 0", func(_ *plan.File, c *plan.Certificate) { c.Chain.Layers[0].Output++ }},
		{"gradient", "chain gradient_bytes of layer 0", func(_ *plan.File, c *plan.Certificate) { c.Chain.Layers[0].Gradient-- }},
		{"parameters", "chain parameters_gradient_bytes of layer 0", func(_ *plan.File, c *plan.Certificate) { c.Chain.Layers[0].ParametersGradient++ }},
		{"saved", "chain saved_bytes of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { row(c, "keep").Saved++ }},
		{"forward overhead", "chain forward_overhead_bytes of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { row(c, "keep").ForwardOverhead++ }},
		{"backward overhead", "chain backward_overhead_bytes of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { row(c, "keep").BackwardOverhead-- }},
		{"forward", "chain forward_ns of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { row(c, "keep").Forward++ }},
		{"backward", "chain backward_ns of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { row(c, "keep").Backward++ }},
		{"early stop", "chain early_stop_ns of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { row(c, "keep").EarlyStop-- }},
		{"other option under a name", "chain saved_bytes of option mlp at layer 0", func(_ *plan.File, c *plan.Certificate) {
			for k := range c.Chain.Options {
				if c.Chain.Options[k].Option.Name == "mlp" {
					c.Chain.Options[k].Option.Regions = []plan.Region{{Span: "attn"}}
				}
			}
		}},
		{"option that is no part", "chain", func(_ *plan.File, c *plan.Certificate) { c.Chain.Options[1].Option = plan.Full }},
		{"option twice", "chain", func(_ *plan.File, c *plan.Certificate) {
			c.Chain.Options[1].Option.Name = c.Chain.Options[0].Option.Name
		}},
		{"no option to keep", "chain", func(_ *plan.File, c *plan.Certificate) { c.Chain.Options = c.Chain.Options[1:] }},
		{"layer without a price", "chain", func(_ *plan.File, c *plan.Certificate) { c.Chain.Options[1].Rows = c.Chain.Options[1].Rows[1:] }},
		{"layer without tensors", "chain", func(_ *plan.File, c *plan.Certificate) { c.Chain.Layers[0].Layers = "0-30" }},
		{"option out of the chain", "nodes", func(f *plan.File, _ *plan.Certificate) {
			f.Nodes = []plan.Node{{First: 0, Last: 31, Option: &plan.Option{Name: "full, cached o_proj", Regions: []plan.Region{{Span: "layer", Cache: []string{"o_proj"}}}}}}
		}},
		{"checkpoint at the end of another", "nodes", func(f *plan.File, _ *plan.Certificate) {
			f.Nodes = []plan.Node{{First: 0, Last: 31, Segment: true, Inner: []plan.Node{{First: 16, Last: 31, Segment: true}}}}
		}},
		{"other card", "card.sheet_fingerprint", func(_ *plan.File, c *plan.Certificate) { c.Card.Sheet = "0123456789ab" }},
		{"slower plan", "chain.bound_ns", func(f *plan.File, c *plan.Certificate) { slowerNested(t, s, f, c) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := planBack(t, text)
			c.change(f, f.Certificate)
			caught(t, s, f, sheet, c.claim, c.name == "slower plan")
		})
	}
}

// slowerNested puts the fastest plan of a smaller budget in the file, with the peak and the times that are its own: all that is false
// is that it is the fastest.
func slowerNested(t *testing.T, s *spec.Spec, f *plan.File, c *plan.Certificate) {
	t.Helper()
	_, tighter, _ := certifiedNested(t, "llama-3.2-1b", deep, 0.25, 3)
	f.Nodes = tighter.Nodes
	truthful(t, f, c)
	sheet, err := gpu.Lookup(c.Card.Name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := certificate.Check(context.Background(), s, f, sheet)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Findings {
		var found int64
		if _, err := fmt.Sscan(x.Found, &found); err != nil {
			continue
		}
		switch x.Claim {
		case "chain.peak_bytes":
			c.Chain.Peak = unit.Bytes(found)
		case "chain.time_ns":
			c.Chain.Time, c.Chain.Bound = found, found
		case "chain.limit_bytes":
			c.Chain.Limit = unit.Bytes(found)
		}
	}
}

// Without a data sheet bytes are checked, and the least time by the times claimed.
func TestNestedCheckWithoutCard(t *testing.T) {
	s, f, _ := certifiedNested(t, "llama-3.2-1b", deep, 0.3, 0)
	r, err := certificate.Check(context.Background(), s, f, nil)
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if n := r.Count(certificate.Unproved); n != 1 {
		t.Errorf("%d claims unproved: %v", n, r.Findings)
	}
}

// 126 equal layers take few lines, and seconds to check.
func TestNestedCertificateOfManyLayers(t *testing.T) {
	thorough.Skip(t)
	s, f, sheet := certifiedNested(t, "llama-3.2-1b", func(s *spec.Spec) { deep(s); s.L = 126 }, 0.3, 0)
	begin := time.Now()
	r, err := certificate.Check(context.Background(), s, f, sheet)
	if err != nil || r.Err() != nil || r.Count(certificate.Unproved) > 0 {
		t.Fatal(err, r)
	}
	t.Logf("checked in %v: %v", time.Since(begin), r.Findings[len(r.Findings)-1])
	f.Spec, f.Nodes = nil, nil
	text := planText(t, f)
	if lines := bytes.Count(text, []byte("\n")); lines > 140 {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}
