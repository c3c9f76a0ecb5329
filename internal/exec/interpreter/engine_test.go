package interpreter

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/exec"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
	"ckptplan/internal/thorough"
)

// Small models of the four classes, with dropout.
var models = map[string]string{
	"gpt2":  "{arch: gpt2, L: 4, H: 8, heads: 2, S: 6, B: 2, vocab: 15, max_positions: 6, dtype: %s, attention: %s, dropout: 0.1}",
	"llama": "{arch: llama, L: 4, H: 16, heads: 4, kv_heads: 2, ffn: 24, S: 6, B: 2, vocab: 15, dtype: %s, attention: %s, dropout: {attention: 0.1}}",
	"bert":  "{arch: bert, L: 4, H: 8, heads: 2, S: 6, B: 2, vocab: 15, max_positions: 6, dtype: %s, attention: %s, dropout: 0.1}",
	"vit":   "{arch: vit, L: 4, H: 8, heads: 2, S: 10, B: 2, labels: 5, image: {size: 12, patch: 4}, dtype: %s, attention: %s, dropout: 0.1}",
}

var strategies = []string{
	"none", "full", "every-2", "first-2", "last-2", "segments-2", "sqrt", "nested-2", "selective", "selective-attn", "selective-mlp", "offload", "offload-inputs",
}

func program(t testing.TB, doc string) *memory.Program {
	t.Helper()
	s, err := model.Load("test.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return memory.Compile(g)
}

func namedPlan(t testing.TB, p *memory.Program, strategy string) *plan.Plan {
	t.Helper()
	pl, err := plan.Named(strategy, p.Graph.Layers)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

// runPlan lowers a plan, runs two steps of it on every device and compares every level of each with the simulator's.
func runPlan(t testing.TB, p *memory.Program, pl *plan.Plan) []exec.Gradient {
	t.Helper()
	s, err := memory.Lower(p, pl)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := memory.Simulate(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var grads []exec.Gradient
	for _, d := range devices {
		e := newEngine(context.Background(), Options{Device: d.open(t, 0), Engine: "host", Schedule: s, Seed: 7})
		var now []exec.Gradient
		for i, want := range []memory.StepResult{tl.FirstStep(), tl.Second} {
			got, err := e.step(func() { now = append(now, e.gradients()...) })
			if err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			if p.Graph.Step.Optimizer == "none" { // the simulator does not look after such a step
				want.AfterStep = int64(got.afterStep)
			}
			if d := cmp.Diff(levels(want), measuredLevels(got)); d != "" {
				t.Errorf("%s: step %d: simulated (−) and run (+):\n%s", pl.Strategy, i, d)
			}
		}
		if len(e.seen) > 0 {
			t.Errorf("%s: %v", pl.Strategy, e.seen)
		}
		now = append(now, exec.Gradient{Name: "loss", Norm: e.loss})
		if d := cmp.Diff(hashes(grads), hashes(now)); grads != nil && d != "" {
			t.Errorf("%s: the checked device has other gradients than the host:\n%s", pl.Strategy, d)
		}
		grads = now
	}
	return grads
}

func levels(r memory.StepResult) map[string]int64 {
	m := map[string]int64{
		"after forward": r.AfterForward, "before backward": r.BeforeBackward, "after backward": r.AfterBackward, "after step": r.AfterStep, "host": r.HostPeak,
	}
	for ph, p := range r.Peak {
		m["peak of "+memory.Phase(ph).String()] = p.Bytes
	}
	return m
}

func measuredLevels(r *stepLevels) map[string]int64 {
	m := map[string]int64{
		"after forward": int64(r.afterForward), "before backward": int64(r.beforeBackward), "after backward": int64(r.afterBackward),
		"after step": int64(r.afterStep), "host": int64(r.host),
	}
	for ph, b := range r.peak {
		m["peak of "+memory.Phase(ph).String()] = int64(b)
	}
	return m
}

// The engine allocates, to the byte, what the simulator says, and no strategy changes a gradient.
func TestNamedStrategies(t *testing.T) {
	for name, doc := range models {
		for _, dtype := range []string{"fp32", "bf16", "amp-bf16"} {
			for _, attention := range []string{"eager", "sdpa", "math"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, dtype, attention), func(t *testing.T) {
					if !thorough.On && (attention == "math" || dtype == "amp-bf16" || dtype == "fp32" && attention == "sdpa") {
						t.Skip("some kinds only: go test -tags thorough runs all")
					}
					p := program(t, fmt.Sprintf(doc, dtype, attention))
					base := runPlan(t, p, namedPlan(t, p, "none"))
					for _, st := range strategies[1:] {
						if _, ok := p.Graph.Span(0, "mlp"); !ok && st == "selective-mlp" {
							continue // the class has no MLP module
						}
						if d := cmp.Diff(base, runPlan(t, p, namedPlan(t, p, st))); d != "" {
							t.Errorf("%s changes gradients:\n%s", st, d)
						}
					}
				})
			}
		}
	}
}

// What changes lifetimes besides the plan: micro-batches, the caller's hold on the logits, optimizers, adapters, untied
// heads, other classes.
func TestTrainingSettings(t *testing.T) {
	gpt2 := "{arch: gpt2, L: 3, H: 16, heads: 2, S: 8, B: 2, vocab: 30, max_positions: 8, dropout: 0.1, attention: eager, dtype: "
	llama := "{arch: llama, L: 3, H: 16, heads: 4, kv_heads: 2, ffn: 24, S: 8, B: 2, vocab: 30, attention: sdpa, dtype: "
	docs := []string{
		gpt2 + "bf16, train: {grad_accum: 2}}",
		gpt2 + "fp16, train: {grad_accum: 3, optimizer: sgd}}",
		gpt2 + "amp-fp16, train: {keep_logits: false}}",
		gpt2 + "amp-bf16, train: {grad_accum: 2, optimizer: adamw-loop}}",
		gpt2 + "fp32, train: {optimizer: adamw-fused}}",
		gpt2 + "fp32, tied: false, train: {optimizer: none}}",
		llama + "bf16, tied: true, norm: rmsnorm-fused}",
		llama + "bf16, train: {finetune: lora, lora: {r: 2, alpha: 4, dropout: 0.1, targets: [q_proj, v_proj, up_proj]}}}",
		llama + "amp-bf16, train: {grad_accum: 2, finetune: lora, lora: {r: 2, alpha: 4, dropout: 0, dtype: fp32, targets: [o_proj, gate_proj]}}}",
	}
	encoder := "{arch: torch-encoder, L: 3, labels: 5, H: 16, ffn: 24, heads: 2, S: 8, B: 2, dtype: "
	docs = append(docs,
		encoder+"bf16}", encoder+"fp32, causal: true, need_weights: true}",
		"{arch: custom, L: 3, S: 8, H: 16, B: 2, heads: 2, dtype: bf16, ops: [layernorm, linear 4H, gelu, dropout 0.1, linear H, residual, attention]}",
	)
	for _, arch := range archs {
		docs = append(docs, archDoc(arch, "bf16", "sdpa"))
		if thorough.On {
			docs = append(docs, archDoc(arch, "amp-bf16", "eager"))
		}
	}
	for _, doc := range docs {
		t.Run(doc, func(t *testing.T) {
			p := program(t, doc)
			base := runPlan(t, p, namedPlan(t, p, "none"))
			for _, st := range []string{"full", "nested-2", "selective", "offload", "offload-inputs"} {
				if _, ok := p.Graph.Span(0, "core"); !ok && st == "selective" {
					continue
				}
				if d := cmp.Diff(base, runPlan(t, p, namedPlan(t, p, st))); d != "" {
					t.Errorf("%s changes gradients:\n%s", st, d)
				}
			}
		})
	}
}
