package torch

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// groundTruth are steps that tools/measure.py, which shares no code with the runner, measured with PyTorch 2.14.
type groundTruth struct {
	ID         string          `json:"id"`
	ModelType  string          `json:"model_type"`
	Config     json.RawMessage `json:"config"`
	Batch      int             `json:"batch"`
	Seq        int             `json:"seq"`
	Precision  string          `json:"precision"`
	Attention  string          `json:"attention"`
	Strategy   string          `json:"strategy"`
	Optimizer  string          `json:"optimizer"`
	KeepLogits *bool           `json:"keep_logits"`
	LoRA       *model.LoRA     `json:"lora"`
	Result     struct {
		BeforeBackward int64 `json:"before_backward_2"`
		Peaks          map[string]struct {
			Bytes int64 `json:"bytes"`
		} `json:"peaks"`
	} `json:"result"`
}

func readGroundTruth(t *testing.T) map[string]*groundTruth {
	t.Helper()
	src, err := os.ReadFile("../../../testdata/ground-truth/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cs []*groundTruth
	if err := json.Unmarshal(src, &cs); err != nil {
		t.Fatal(err)
	}
	out := map[string]*groundTruth{}
	for _, c := range cs {
		out[c.ID] = c
	}
	return out
}

// graph is the case's model with its settings, and config the config.json it comes from.
func (c *groundTruth) graph(t *testing.T) (*model.Graph, []byte) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(c.Config, &fields); err != nil {
		t.Fatal(err)
	}
	fields["model_type"] = c.ModelType
	config, _ := json.Marshal(fields)
	s, err := model.LoadHF(c.ID, config)
	if err != nil {
		t.Fatal(err)
	}
	s.B, s.S, s.Precision, s.Attention, s.Checkpoint = c.Batch, c.Seq, model.Precision(c.Precision), c.Attention, c.Strategy
	s.Train.Optimizer = strings.ReplaceAll(c.Optimizer, "_", "-")
	s.Train.KeepLogits = c.KeepLogits == nil || *c.KeepLogits
	s.Train.GradAccum = 1
	if c.LoRA != nil {
		s.Train.LoRA, s.Train.Finetune = c.LoRA, "lora"
	}
	return build(t, s), config
}

func build(t *testing.T, s *model.Spec) *model.Graph {
	t.Helper()
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func named(t *testing.T, g *model.Graph, strategy string) *plan.Plan {
	t.Helper()
	p, err := plan.Named(strategy, g.Layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func judge(t *testing.T, g *model.Graph, p *plan.Plan) *memory.Timeline {
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

// TestTorchMetaGroundTruth measures known steps again. A config.json is built as it is; without one, its class is
// built from the spec.
func TestTorchMetaGroundTruth(t *testing.T) {
	py := torchPython(t)
	cases := readGroundTruth(t)
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
			g, config := c.graph(t)
			if i%2 == 1 {
				config = nil
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
			check("before backward", m.BeforeBackward.Tensor, c.Result.BeforeBackward)
			if cmp := exec.Compare(judge(t, g, p), m, 0.005); !cmp.Agrees {
				t.Errorf("prediction: %+v", cmp.Lines)
			}
		})
	}
}
