package torch

import (
	"cmp"
	"math"
	"os"
	"strings"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/groundtruth"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// build makes the graph that the spec's own strategy runs on.
func graphOf(t *testing.T, s *spec.Spec) *graph.Graph {
	t.Helper()
	p, err := plan.Named(cmp.Or(s.Checkpoint, "none"), plan.LayersOf(s))
	if err != nil {
		t.Fatal(err)
	}
	g, err := model.Build(s, build.Options{Checkpoint: p.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func named(t *testing.T, g *graph.Graph, strategy string) *plan.Plan {
	t.Helper()
	p, err := plan.Named(strategy, g.Layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func judge(t *testing.T, g *graph.Graph, p *plan.Plan) *memory.Timeline {
	t.Helper()
	tl, err := memory.Judge(memory.Compile(g), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// torchPython is an interpreter with PyTorch: $TORCH_PYTHON, as tools/torch-env prints it.
func torchPython(t *testing.T) string {
	t.Helper()
	py := os.Getenv("TORCH_PYTHON")
	if py == "" {
		t.Skip("TORCH_PYTHON names no Python with PyTorch (tools/torch-env prints one)")
	}
	return py
}

// sampled are cases of each class, precision, kind of attention, strategy and optimizer.
var sampled = []string{
	"gpt2-b2-s1024-bf16-sdpa-none-adamw",
	"gpt2-b1-s2048-fp32-eager-none-adamw",
	"gpt2-b4-s512-amp-bf16-sdpa-full-adamw",
	"gpt2-b3-s777-bf16-sdpa-first-5-adamw-drop-logits",
	"gpt2-b4-s2048-bf16-sdpa-segments-3-adamw",
	"gpt2-b4-s2048-bf16-sdpa-nested-4-adamw",
	"gpt2-b4-s1024-bf16-eager-selective-adamw",
	"gpt2-b4-s1024-amp-bf16-sdpa-sqrt-adamw",
	"gpt2-b2-s1024-bf16-sdpa-none-adamw_fused",
	"tinyllama-1.1b-b4-s512-amp-bf16-sdpa-none-adamw",
	"tinyllama-1.1b-b1-s2048-fp32-eager-none-adamw",
	"tinyllama-1.1b-b4-s2048-bf16-sdpa-selective-attn-adamw",
	"tinyllama-1.1b-b4-s2048-bf16-sdpa-selective-mlp-adamw",
	"tinyllama-1.1b-b4-s2048-bf16-sdpa-selective-adamw",
	"tinyllama-1.1b-b4-s2048-bf16-sdpa-none-adamw-lora16",
	"tinyllama-1.1b-b4-s2048-bf16-sdpa-last-6-adamw_loop",
	"llama-3-8b-b1-s2048-bf16-sdpa-full-adamw-lora16",
	"mistral-7b-b2-s1024-bf16-sdpa-full-adamw",
	"qwen3-0.6b-b8-s512-bf16-sdpa-every-2-adamw",
	"pythia-410m-b2-s1024-bf16-sdpa-full-adamw",
	"opt-1.3b-b1-s1024-bf16-eager-none-sgd",
	"bert-base-b8-s512-amp-bf16-sdpa-none-adamw",
	"vit-base-b32-s197-amp-bf16-sdpa-none-adamw",
	"mixtral-small-b8-s512-bf16-sdpa-every-2-adamw",
}

// TestTorchMetaGroundTruth measures steps again that tools/measure.py, which shares no code with the runner, measured. A config.json is built as it is; without one, its class is
// built from the spec.
func TestTorchMetaGroundTruth(t *testing.T) {
	py := torchPython(t)
	cases := groundtruth.ByID(t)
	only := os.Getenv("CKPTPLAN_CASES")
	for i, id := range sampled {
		if !strings.Contains(id, only) {
			continue
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			c := cases[id]
			if c == nil {
				t.Fatal("no such case")
			}
			s, err := c.Spec()
			if err != nil {
				t.Fatal(err)
			}
			g := graphOf(t, s)
			var config []byte
			if i%2 == 0 {
				if config, err = c.ConfigJSON(); err != nil {
					t.Fatal(err)
				}
			}
			p := named(t, g, c.Strategy)
			m, err := Run(t.Context(), Options{Python: py, Device: "meta", Graph: g, Config: config, Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, got unit.Bytes, want int64) {
				t.Helper()
				if off := math.Abs(float64(int64(got)-want)) / float64(want); off > 0.0001 {
					t.Errorf("%s: measured %d, known %d (%+.3f%%)", what, got, want, 100*float64(int64(got)-want)/float64(want))
				}
			}
			for _, ph := range []string{"forward", "backward", "optimizer"} {
				if want := c.Result.Peaks["2."+ph].Bytes; want != 0 {
					check(ph, m.Phases[ph].Tensor, want)
				}
			}
			check("before backward", m.BeforeBackward.Tensor, c.Result.BeforeBackward2)
			if cmp := exec.Compare(judge(t, g, p), m, 0.005); !cmp.Agrees {
				t.Errorf("prediction: %+v", cmp.Lines)
			}
		})
	}
}
