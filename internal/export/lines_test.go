package export

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
)

// exportedSpec is a small model of a class, with odd sizes.
const exportedSpec = "L: 4\nS: 48\nH: 64\nB: 3\nheads: 4\nvocab: 500\n"

func option(spans ...string) *plan.Option {
	o := &plan.Option{Name: strings.Join(spans, "+")}
	for _, s := range spans {
		o.Regions = append(o.Regions, plan.Region{Span: s})
	}
	return o
}

func leaf(first, last int, spans ...string) plan.Node {
	o := option(spans...)
	if o.Name == "layer" {
		o = &plan.Full
	}
	return plan.Node{First: first, Last: last, Option: o}
}

func segmentOf(first, last int, inner ...plan.Node) plan.Node {
	return plan.Node{First: first, Last: last, Segment: true, Inner: inner}
}

func loaded(t *testing.T, doc string) (*spec.Spec, *memory.Programs) {
	t.Helper()
	s, err := model.Load("x.yaml", []byte(exportedSpec+doc))
	if err != nil {
		t.Fatal(err)
	}
	return s, memory.NewPrograms(s, false)
}

// Exported lines, run on the real model class, allocate what the plan is predicted to, to the byte.
func TestExportedLinesRun(t *testing.T) {
	python := os.Getenv("TORCH_PYTHON")
	if python == "" {
		t.Skip("TORCH_PYTHON names no Python with PyTorch and transformers (tools/torch-env prints one)")
	}
	keep := plan.Option{Name: "kept", Regions: []plan.Region{{Span: "mlp", Cache: []string{"up_proj"}}}}
	want, texts := map[string]map[string]int64{}, map[string]string{}
	var cases []map[string]any
	for _, c := range []struct {
		name, target, doc string
		nodes             []plan.Node
	}{
		{"parts", "torch", "arch: llama\ndtype: bf16\nkv_heads: 2\n", []plan.Node{leaf(0, 1, "norm1", "act"), leaf(2, 2, "attn", "mlp"), leaf(3, 3, "core", "norm2")}},
		{"segments", "torch", "arch: qwen3\ndtype: bf16\n", []plan.Node{segmentOf(0, 2, segmentOf(0, 1), leaf(2, 2, "mlp")), leaf(3, 3, "layer")}},
		{"kept op", "torch", "arch: llama\ndtype: fp32\n", []plan.Node{{First: 1, Last: 2, Option: &keep}}},
		{"gpt2", "torch", "arch: gpt2\ndtype: fp32\nattention: eager\n", []plan.Node{leaf(0, 1, "attn", "norm2"), leaf(2, 3, "core", "mlp")}},
		{"bert", "torch", "arch: bert\ndtype: bf16\n", []plan.Node{leaf(0, 1, "attn", "act"), leaf(2, 3, "mlp")}},
		{"distilbert", "torch", "arch: distilbert\ndtype: bf16\n", []plan.Node{leaf(0, 1, "attn", "act"), leaf(2, 3, "mlp")}},
		{"phi3", "torch", "arch: phi3\ndtype: bf16\n", []plan.Node{leaf(0, 3, "act", "norm1")}},
		{"t5", "torch", "arch: t5\nattention: eager\ndtype: bf16\n", []plan.Node{leaf(0, 5, "layer")}},
		{"none", "hf-layers", "arch: llama\ndtype: bf16\n", nil},
		{"full", "hf-layers", "arch: llama\ndtype: bf16\n", []plan.Node{leaf(0, 3, "layer")}},
		{"some layers", "hf-layers", "arch: mistral\ndtype: bf16\n", []plan.Node{leaf(0, 0, "layer"), leaf(3, 3, "layer")}},
		{"wrapped layers", "checkpoint-wrapper", "arch: gemma2\ndtype: bf16\n", []plan.Node{leaf(1, 2, "layer")}},
		{"wrapped modules", "checkpoint-wrapper", "arch: llama\ndtype: bf16\n", []plan.Node{leaf(0, 3, "mlp")}},
	} {
		s, ps := loaded(t, c.doc)
		f := plan.NewFile(&plan.Plan{Strategy: c.name, Nodes: c.nodes}, s, "test")
		p, err := ps.Kind(f.Kind())
		if err != nil {
			t.Fatal(err)
		}
		tl, err := memory.Judge(p, &f.Plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		tg, err := FindTarget(c.target)
		if err != nil {
			t.Fatal(err)
		}
		var text string
		if c.target == "torch" {
			text, err = TorchFile(f, p.Graph)
		} else {
			text, err = tg.Lines(f, p.Graph.Layers)
		}
		if err != nil {
			t.Fatal(err)
		}
		id := c.target + " " + c.name
		expected := map[string]int64{"before": tl.Second.BeforeBackward}
		for ph := range memory.Phases {
			expected[ph.String()] = tl.Second.Peak[ph].Bytes
		}
		want[id], texts[id] = expected, text
		cases = append(cases, measured(id, s, text))
	}
	got := run(t, python, cases)
	for id, expected := range want {
		for k, v := range expected {
			if m := got[id][k]; m != float64(v) {
				t.Errorf("%s, %s: PyTorch %v, predicted %d (%v)\n%s", id, k, m, v, got[id]["error"], texts[id])
			}
		}
	}
}

// measured is the case of measure.py that runs a spec with lines.
func measured(id string, s *spec.Spec, lines string) map[string]any {
	m := class.ModuleOf(s)
	delete(m.Config, "model_type")
	if s.Arch == "phi3" {
		m.Config["pad_token_id"] = 0 // the class's own is beyond a small vocabulary
	}
	return map[string]any{
		"id": id, "lines": lines, "model_type": class.Of(s.Arch).ModelType(), "auto": m.Auto, "config": m.Config, "batch": s.B, "seq": s.S, "dec_seq": s.DecoderS,
		"precision": s.Precision, "attention": s.Attention, "optimizer": s.Train.Optimizer, "keep_logits": s.Train.KeepLogits,
	}
}

// run measures steps in one process.
func run(t *testing.T, python string, cases []map[string]any) map[string]map[string]any {
	t.Helper()
	js, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(file, js, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/run_lines.py", "../../tools", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	got := map[string]map[string]any{}
	if err := json.Unmarshal(out[strings.LastIndex(strings.TrimSpace(string(out)), "\n")+1:], &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}
