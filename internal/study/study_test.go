package study

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// TestStudyGraphs: a plan is priced on the graph that its kind of checkpointing makes. T5's differs without adapters
// too, and between layers and parts of layers.
func TestStudyGraphs(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, train := range []string{"", ", train: {lora: {r: 4, targets: [q, v]}}"} {
		spec, err := model.Load("t5.yaml", []byte("{arch: t5, L: 2, S: 32, H: 64, B: 2, heads: 4, ffn: 128, vocab: 200, dtype: fp32, attention: eager"+train+"}"))
		if err != nil {
			t.Fatal(err)
		}
		study, err := New(spec, Request{Request: strategy.Request{Sheet: sheet}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"none", "full", "every-2", "selective-attn", "offload"} {
			p, err := plan.Named(name, plan.LayersOf(spec))
			if err != nil {
				t.Fatal(err)
			}
			g, err := model.Build(spec, build.Options{Checkpoint: map[string]string{"none": "none", "full": "full", "every-2": "full", "selective-attn": "selective", "offload": "selective"}[name]})
			if err != nil {
				t.Fatal(err)
			}
			want, err := memory.Judge(memory.Compile(g), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := study.Simulate(Choice{Name: name, Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			if a, b := got.Timeline.Second.Peak, want.Second.Peak; a != b {
				t.Errorf("%s%s: peaks %+v, want %+v", name, train, a, b)
			}
		}
	}
}

// studyOf starts a study of a spec document.
func studyOf(t *testing.T, doc string, sheet *gpu.Sheet) *Study {
	t.Helper()
	spec, err := model.Load("spec.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	study, err := New(spec, Request{Request: strategy.Request{Sheet: sheet}})
	if err != nil {
		t.Fatal(err)
	}
	return study
}

// under is the study with a class of plans and a budget, no reserve.
func (s *Study) under(class string, device unit.Bytes) *Study {
	c := *s
	c.Class, c.Budget = class, device
	return &c
}

// TestOptimizeOnOwnGraph: where the kind of checkpointing changes the graph, a plan is searched on the graph that it runs on.
// At the peak of any named strategy, on that strategy's own graph, the plan found fits and is no slower; one byte below
// keeping everything, something is recomputed.
func TestOptimizeOnOwnGraph(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{
		"{arch: t5, L: 3, decoder_L: 2, S: 96, decoder_S: 64, H: 64, B: 4, heads: 4, ffn: 128, vocab: 500, dtype: bf16, attention: eager}",
		"{arch: t5, L: 3, decoder_L: 2, S: 96, decoder_S: 64, H: 64, B: 4, heads: 4, ffn: 128, vocab: 500, precision: amp-bf16, attention: eager}",
		"{arch: llama, L: 4, S: 128, H: 64, B: 4, heads: 4, kv_heads: 2, ffn: 192, vocab: 500, dtype: bf16, train: {lora: {r: 4, targets: [q_proj, v_proj]}}}",
	} {
		study := studyOf(t, doc, sheet)
		at := func(device int64) *Optimization {
			t.Helper()
			o, err := study.under("auto", unit.Bytes(device)).Optimize(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		for _, name := range strategy.Baselines {
			named, err := plan.Named(name, study.layers())
			if err != nil {
				t.Fatal(err)
			}
			p, err := study.Simulate(Choice{Name: name, Plan: named})
			if err != nil {
				continue // a part that this model does not have
			}
			o := at(p.Timeline.Peak.Bytes)
			if o.Plan == nil || int64(o.Estimate.Peak.TensorBytes) > p.Timeline.Peak.Bytes || o.Estimate.Time.StepNanoseconds > p.Timeline.Times.Step() {
				t.Errorf("%s\nat the peak of %s, %d bytes in %d ns: %+v", doc, name, p.Timeline.Peak.Bytes, p.Timeline.Times.Step(), o.Estimate)
			}
			if name == "none" {
				if len(o.Plan.Nodes) != 0 || o.Certificate.Status != "optimal" {
					t.Errorf("%s\nkeeping everything fits, but the plan is %+v", doc, o.Plan.Nodes)
				}
				if o = at(p.Timeline.Peak.Bytes - 1); o.Plan == nil || len(o.Plan.Nodes) == 0 {
					t.Errorf("%s\na byte less than keeping everything takes: %+v", doc, o.Plan)
				}
			}
		}
	}
}
