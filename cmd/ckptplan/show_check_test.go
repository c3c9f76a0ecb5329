package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// certified optimizes a preset and returns its plan file, read back from what is written.
func certified(t *testing.T, preset string, change func(*spec.Spec), share float64) (*spec.Spec, *plan.File, *gpu.Sheet) {
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
	req := strategy.Request{Sheet: sheet, Class: "flat", Reserve: 0}
	least, err := strategy.Leanest(context.Background(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	none, err := memory.Judge(p, &plan.Plan{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	low := least.Timeline.Peak.Bytes
	req.Budget = unit.Bytes(low + int64(share*float64(none.Peak.Bytes-low)))
	res, err := strategy.Optimize(context.Background(), p, req)
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

func planText(t *testing.T, f *plan.File) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := plan.Write(&out, f); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func planBack(t *testing.T, text []byte) *plan.File {
	t.Helper()
	f, err := plan.Read("plan.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// plainMLP is a stack of linear, gelu, linear without residuals: a layer's output is its last op's.
func plainMLP(s *spec.Spec) {
	m, err := model.Load("mlp.yaml", []byte("{arch: custom, L: 6, S: 512, H: 64, B: 2, heads: 4, ops: [linear 4H, gelu, linear H], dtype: fp32, train: {optimizer: none}}"))
	if err != nil {
		panic(err)
	}
	*s = *m
}

func TestCertificatesHold(t *testing.T) {
	lora := &spec.LoRA{Rank: 16, Alpha: 32, DType: "fp32", Targets: []string{"q_proj", "v_proj"}}
	for _, c := range []struct {
		name, preset string
		change       func(*spec.Spec)
	}{
		{"gpt2", "gpt2", nil},
		{"gpt2 eager", "gpt2", func(s *spec.Spec) { s.Attention = "eager"; s.S = 512 }},
		{"gpt2 amp", "gpt2", func(s *spec.Spec) { s.Precision = dtype.AmpBF; s.B = 4 }},
		{"gpt2 accumulated", "gpt2", func(s *spec.Spec) { s.Train.GradAccum = 4 }},
		{"gpt-1.3b", "gpt-1.3b", nil},
		{"masks while forward binds", "gpt2-medium", func(s *spec.Spec) { s.Attention = "eager"; s.Precision = dtype.AmpBF; s.S, s.B = 512, 4 }},
		{"embedding output while forward binds", "bert-large", func(s *spec.Spec) { s.Precision = dtype.AmpBF; s.S, s.B = 512, 4 }},
		{"llama-3.2-1b", "llama-3.2-1b", nil},
		{"llama-3.2-1b amp", "llama-3.2-1b", func(s *spec.Spec) { s.Precision = dtype.AmpBF }},
		{"llama-3-8b lora", "llama-3-8b", func(s *spec.Spec) { s.Train.LoRA, s.Train.Finetune = lora, "lora" }},
		{"llama-3.2-1b lora", "llama-3.2-1b", func(s *spec.Spec) { s.Train.LoRA, s.Train.Finetune = lora, "lora" }},
		{"loss in parts", "llama-3.2-1b", func(s *spec.Spec) { s.Train.LossChunks, s.Train.GradAccum = 4, 2 }},
		{"an MLP whose last op is a matrix product", "gpt2", plainMLP},
		{"gemma-2 windows", "gemma-2-2b", func(s *spec.Spec) { s.S = 8192; s.Attention = "eager" }},
		{"llama-3-70b", "llama-3-70b", nil},
		{"weights that falcon's next layer holds", "falcon-7b", func(s *spec.Spec) { s.Attention, s.B, s.Train.Optimizer = "eager", 4, "sgd" }},
	} {
		for _, share := range thorough.Or([]float64{0.02, 0.4, 0.8, 1}, []float64{0.4}) {
			t.Run(fmt.Sprintf("%s %.0f%%", c.name, 100*share), func(t *testing.T) {
				s, f, sheet := certified(t, c.preset, c.change, share)
				r, err := certificate.Check(context.Background(), s, f, sheet)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Err(); err != nil {
					t.Error(err)
				}
				// Where forward binds, its rows may count too much for a proof: the plan is then said to be feasible.
				feasible := f.Certificate.Status == "feasible" && f.Certificate.Menu != nil && f.Certificate.Menu.Slack > 0
				if n := r.Count(certificate.Unproved); n > 0 && !feasible {
					t.Errorf("%d claims unproved: %v", n, r.Findings)
				}
			})
		}
	}
}

// Every claim of a certificate is caught when it is changed, under its own name.
func TestCertificateChangesAreCaught(t *testing.T) {
	full := plan.Full
	s, f, sheet := certified(t, "gpt2", func(s *spec.Spec) { s.Attention = "eager"; s.S = 512 }, 0.4)
	f.Predicted = &plan.Predicted{Peak: f.Certificate.Peak.Bytes, Phase: f.Certificate.Peak.Phase, StepTime: f.Certificate.Time.Step, GPU: f.Certificate.Card.Name}
	text := planText(t, f)
	for _, c := range []struct {
		name, claim string
		change      func(f *plan.File, c *plan.Certificate)
	}{
		{"slack of forward rows", "menu.forward_slack_bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Slack++ }},
		{"a plan said to add nothing", "closed", func(_ *plan.File, c *plan.Certificate) { c.Closed.How = strategy.NothingAdded }},
		{"predicted peak", "predicted.peak_tensor_bytes", func(f *plan.File, _ *plan.Certificate) { f.Predicted.Peak-- }},
		{"predicted step", "predicted.step_ns", func(f *plan.File, _ *plan.Certificate) { f.Predicted.StepTime++ }},
		{"peak", "peak.tensor_bytes", func(_ *plan.File, c *plan.Certificate) { c.Peak.Bytes-- }},
		{"phase", "peak.phase", func(_ *plan.File, c *plan.Certificate) { c.Peak.Phase = "optimizer" }},
		{"block", "peak.block", func(_ *plan.File, c *plan.Certificate) { c.Peak.Block = "layers.7" }},
		{"op", "peak.op", func(_ *plan.File, c *plan.Certificate) { c.Peak.Op = "aten.add" }},
		{"owner", "peak.owners[1]", func(_ *plan.File, c *plan.Certificate) { c.Peak.Owners[1].Count++ }},
		{"step", "time.step_ns", func(_ *plan.File, c *plan.Certificate) { c.Time.Step++ }},
		{"extra time", "time.extra_ns", func(_ *plan.File, c *plan.Certificate) { c.Time.Extra-- }},
		{"reserve", "budget_bytes", func(_ *plan.File, c *plan.Certificate) { c.Reserve++ }},
		{"budget of the file", "budget_bytes of the file", func(f *plan.File, _ *plan.Certificate) { f.Budget++ }},
		{"lower budget", "tensor_budget_bytes", func(f *plan.File, c *plan.Certificate) {
			by := c.TensorBudget - c.Peak.Bytes + 1
			c.TensorBudget, c.Budget, f.Budget = c.TensorBudget-by, c.Budget-by, f.Budget-by
		}},
		{"price of a row", "dual.bound_ns", func(_ *plan.File, c *plan.Certificate) { c.Bound.Rows[0].Lambda *= 2 }},
		{"row", "dual.rows", func(_ *plan.File, c *plan.Certificate) { c.Bound.Rows[0].Row = "12" + c.Bound.Rows[0].Row }},
		{"bound", "dual.bound_ns", func(_ *plan.File, c *plan.Certificate) { c.Bound.Bound++ }},
		{"gap", "dual.gap_ns", func(_ *plan.File, c *plan.Certificate) { c.Bound.Gap-- }},
		{"how", "closed", func(_ *plan.File, c *plan.Certificate) { c.Closed.How = "dual-tight" }},
		{"not closed", "closed", func(_ *plan.File, c *plan.Certificate) { c.Closed.How = "none" }},
		{"stopped", "status", func(_ *plan.File, c *plan.Certificate) { c.Closed.How = "stopped" }},
		{"no proof", "status", func(_ *plan.File, c *plan.Certificate) { c.Menu, c.Bound = nil, nil }},
		{"base", "menu.base_bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Base++ }},
		{"floor", "menu.floor_bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Floor-- }},
		{"head forward", "menu.head.forward_bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Head.Forward-- }},
		{"head backward", "menu.head.backward_bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Head.Backward-- }},
		{"head gradient", "menu.head.gradient_bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Head.Gradient++ }},
		{"gradient", "menu.gradients of layer 0", func(_ *plan.File, c *plan.Certificate) { c.Menu.Gradients[0].Bytes++ }},
		{"save", "menu save_bytes of option full at layer 0", func(_ *plan.File, c *plan.Certificate) { c.Menu.Options[1].Rows[0].Save++ }},
		{"save forward", "menu save_forward_bytes of option keep at layer 0", func(_ *plan.File, c *plan.Certificate) { c.Menu.Options[0].Rows[0].SaveForward-- }},
		{"forward", "menu forward_bytes of option full at layer 0", func(_ *plan.File, c *plan.Certificate) { c.Menu.Options[1].Rows[0].Forward++ }},
		{"backward", "menu backward_bytes of option full at layer 0", func(_ *plan.File, c *plan.Certificate) { c.Menu.Options[1].Rows[0].Backward++ }},
		{"price in time", "menu time_ns of option full at layer 0", func(_ *plan.File, c *plan.Certificate) { c.Menu.Options[1].Rows[0].Time++ }},
		{"other option under a name", "menu save_bytes of option full at layer 0", func(_ *plan.File, c *plan.Certificate) {
			c.Menu.Options[1].Option.Regions = []plan.Region{{Span: "mlp"}}
		}},
		{"part that no layer has", "menu", func(_ *plan.File, c *plan.Certificate) {
			c.Menu.Options[1].Option.Regions = []plan.Region{{Span: "layer", Cache: []string{"nothing"}}}
		}},
		{"layer without a price", "menu", func(_ *plan.File, c *plan.Certificate) { c.Menu.Options[1].Rows = c.Menu.Options[1].Rows[1:] }},
		{"option out of the menu", "nodes", func(f *plan.File, c *plan.Certificate) {
			gone := f.Nodes[0].Option.Name
			c.Menu.Options = slices.DeleteFunc(c.Menu.Options, func(o plan.CertifiedOption) bool { return o.Option.Name == gone })
			for u := range c.Menu.Shared {
				c.Menu.Shared[u].Held = slices.DeleteFunc(c.Menu.Shared[u].Held, func(h plan.Holder) bool { return h.Option == gone })
			}
		}},
		{"shared", "menu.shared[0].bytes", func(_ *plan.File, c *plan.Certificate) { c.Menu.Shared[0].Bytes-- }},
		{"not shared", "menu.shared", func(_ *plan.File, c *plan.Certificate) { c.Menu.Shared = nil }},
		{"another choice", "time.extra_ns", func(f *plan.File, _ *plan.Certificate) {
			f.Nodes[0].Option = f.Nodes[len(f.Nodes)-1].Option
		}},
		{"segment", "nodes", func(f *plan.File, _ *plan.Certificate) { f.Nodes = []plan.Node{{First: 0, Last: 3, Segment: true}} }},
		{"other card", "card.sheet_fingerprint", func(_ *plan.File, c *plan.Certificate) { c.Card.Sheet = "0123456789ab" }},
		{"slower plan", "closed", func(f *plan.File, c *plan.Certificate) {
			f.Nodes = []plan.Node{{First: 0, Last: 11, Option: &full}}
			truthful(t, f, c)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := planBack(t, text)
			c.change(f, f.Certificate)
			caught(t, s, f, sheet, c.claim, c.name == "slower plan")
		})
	}
}

// caught fails the test unless a claim of the file's certificate is found wrong under that name, and no other if alone.
func caught(t *testing.T, s *spec.Spec, f *plan.File, sheet *gpu.Sheet, claim string, alone bool) {
	t.Helper()
	r, err := certificate.Check(context.Background(), s, f, sheet)
	if err != nil {
		t.Fatal(err)
	}
	var failed *certificate.FailedError
	if !errors.As(r.Err(), &failed) {
		t.Fatal("not caught")
	}
	var claims []string
	for _, f := range failed.Findings {
		claims = append(claims, f.Claim)
	}
	if !slices.Contains(claims, claim) {
		t.Errorf("caught as %s, not as %s", strings.Join(claims, "; "), claim)
	}
	if alone && len(claims) > 1 {
		t.Errorf("also caught: %s", strings.Join(claims, "; "))
	}
	t.Log(failed)
}

// truthful writes what a replay of the file's plan says into its certificate: all it still claims falsely is that the
// plan is the fastest.
func truthful(t *testing.T, f *plan.File, c *plan.Certificate) {
	t.Helper()
	f.Predicted = nil
	g, err := model.Build(f.Spec, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sheet, err := gpu.Lookup(c.Card.Name)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := memory.Judge(memory.Compile(g), &f.Plan, sheet)
	if err != nil {
		t.Fatal(err)
	}
	c.Peak = plan.CertifiedPeak{Bytes: unit.Bytes(tl.Peak.Bytes), Phase: tl.Peak.Phase.String(), Block: tl.Block(tl.Peak), Op: tl.Peak.Aten}
	c.Time = plan.CertifiedTime{Step: tl.Times.Step(), Extra: tl.Times.Extra()}
	if c.Bound != nil {
		c.Bound.Gap = c.Time.Extra - c.Bound.Bound
	}
}

func TestCheckRefusesOtherModels(t *testing.T) {
	s, f, sheet := certified(t, "gpt2", nil, 0.4)
	other := *s
	other.B++
	var mismatch *plan.MismatchError
	if _, err := certificate.Check(context.Background(), &other, f, sheet); !errors.As(err, &mismatch) {
		t.Error(err)
	}
	f.Certificate = nil
	if _, err := certificate.Check(context.Background(), s, f, sheet); !errors.Is(err, certificate.ErrNoCertificate) {
		t.Error(err)
	}
}

// Without a data sheet bytes are checked and times are not.
func TestCheckWithoutCard(t *testing.T) {
	s, f, _ := certified(t, "gpt2", nil, 0.4)
	r, err := certificate.Check(context.Background(), s, f, nil)
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if n := r.Count(certificate.Unproved); n != 1 {
		t.Errorf("%d claims unproved: %v", n, r.Findings)
	}
}

// Certificates are written the same way each time, and are short: rows do not grow with equal layers.
func TestCertificateIsCompact(t *testing.T) {
	size := func(layers int) (lines int, text string) {
		_, f, _ := certified(t, "gpt-1.3b", func(s *spec.Spec) { s.L = layers }, 0.4)
		f.Spec, f.Nodes = nil, nil
		out := planText(t, f)
		return bytes.Count(out, []byte("\n")), string(out)
	}
	few, text := size(24)
	if _, again := size(24); again != text {
		t.Error("two certificates of the same plan differ")
	}
	if many, text := size(126); many > few+5 || many > 140 {
		t.Errorf("%d lines for 126 equal layers, %d for 24:\n%s", many, few, text)
	}
}
