package report

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
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
		study, err := NewStudy(spec, sheet)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"none", "full", "every-2", "selective-attn", "offload"} {
			own := *spec
			own.Checkpoint = name
			g, err := own.Build()
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Named(name, g.Layers)
			if err != nil {
				t.Fatal(err)
			}
			want, err := memory.Judge(memory.Compile(g), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := study.Price(Choice{Name: name, Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			if a, b := got.Timeline.Second.Peak, want.Second.Peak; a != b {
				t.Errorf("%s%s: peaks %+v, want %+v", name, train, a, b)
			}
		}
	}
}
