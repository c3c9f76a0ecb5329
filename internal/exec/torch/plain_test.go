package torch

import (
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// TestTorchPlain compares models in plain PyTorch, which have no Hugging Face class behind them, with the prediction
// on meta, with a plan that wraps each part of a layer.
func TestTorchPlain(t *testing.T) {
	py := torchPython(t)
	const (
		encoder = "L: 4\nS: 128\nH: 128\nB: 2\nheads: 4\nffn: 512\nlabels: 500\n"
		sizes   = "L: 4\nS: 128\nH: 128\nB: 2\nheads: 4\nvocab: 500\n"
	)
	for _, c := range []struct{ doc, strategy string }{
		{"arch: gpt2\nmax_positions: 128\ndtype: bf16\n" + sizes, "none"},
		{"arch: gpt2\nmax_positions: 128\ndtype: fp32\nattention: eager\n" + sizes, "selective"},
		{"arch: llama\nkv_heads: 2\nffn: 352\ndtype: bf16\n" + sizes, "none"},
		{"arch: llama\nkv_heads: 2\nffn: 352\ndtype: amp-bf16\n" + sizes, "full"},
		{"arch: qwen3\nkv_heads: 2\nffn: 352\nhead_dim: 32\ndtype: bf16\n" + sizes, "segments-2"},
		{"arch: bert\nmax_positions: 128\ndtype: bf16\n" + sizes, "selective-attn"},
		{"arch: bert\nmax_positions: 512\ndtype: bf16\ntrain: {optimizer: adamw-loop}\n" + sizes, "selective-mlp"},
		{"arch: bert\ndtype: amp-fp16\nattention: eager\ntrain: {lora: {r: 4, targets: [dense, value]}}\n" + sizes, "segments-2"},
		{"arch: gpt2\ndtype: bf16\nattention: eager\ntrain: {optimizer: sgd}\n" + sizes, "full"},
		{"arch: gpt2\ndtype: fp32\ntrain: {lora: {r: 4, targets: [c_attn, c_fc]}, optimizer: adamw}\n" + sizes, "full"},
		{"arch: llama\ndtype: fp32\nattention: eager\ntrain: {lora: {r: 4, dropout: 0.1, targets: [gate_proj, v_proj]}}\n" + sizes, "full"},
		{"arch: torch-encoder\ndtype: fp32\npositions: learned\nmax_positions: 128\n" + encoder, "none"},
		{"arch: torch-encoder\ndtype: bf16\nnorm_order: pre\ncausal: true\n" + encoder, "selective-mlp"},
		{"arch: torch-encoder\ndtype: amp-bf16\nneed_weights: true\nnorm_order: pre\nactivation: gelu\n" + encoder, "full"},
		{"arch: torch-encoder\ndtype: fp32\nfinal_norm: true\nbias: {qkv: false, out: false, mlp: false, norm: false}\n" + encoder, "full"},
		{"arch: custom\nL: 4\nS: 64\nH: 128\nB: 4\nheads: 1\ndtype: fp32\nops: [layernorm, linear 4H, gelu, linear H, residual]\n", "every-2"},
	} {
		t.Run(c.doc[6:20]+" "+c.strategy, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("plain.yaml", []byte(c.doc))
			if err != nil {
				t.Fatal(err)
			}
			s.Checkpoint = c.strategy
			checkMeta(t, graphOf(t, s), Options{Python: py, Device: "meta", Plain: true})
		})
	}
}

// TestTorchSettings builds transformers' classes from specs with settings that the class's defaults do not have.
func TestTorchSettings(t *testing.T) {
	py := torchPython(t)
	const sizes = "L: 3\nS: 128\nH: 128\nB: 2\nheads: 4\nvocab: 500\n"
	for _, c := range []struct{ name, doc, strategy string }{
		{"gpt2 fp32 scores", "arch: gpt2\ndtype: bf16\nattention: eager\nupcast_attention: true\nunscaled_attention: true\n", "none"},
		{"opt post", "arch: opt\ndtype: bf16\nnorm_order: post\nplain_norm: true\nembedding_dim: 64\n", "full"},
		{"opt no last norm", "arch: opt\ndtype: amp-bf16\nfinal_norm: false\nbias: {qkv: false, out: false, mlp: false}\n", "every-2"},
		{"bloom normed residual", "arch: bloom\ndtype: bf16\nnormed_residual: true\n", "none"},
		{"gpt2 adapters", "arch: gpt2\ndtype: bf16\ntrain: {lora: {r: 4, targets: [all-linear]}}\n", "every-2"},
		{"router without renormalisation", "arch: qwen3-moe\nkv_heads: 2\nhead_dim: 64\nactivation: relu\nprecision: amp-bf16\nmoe: {experts: 5, top_k: 5, ffn: 72, norm_top_k: false}\n", "none"},
		{"softmax of math attention", "arch: granite\nkv_heads: 2\nffn: 109\ndtype: fp32\nattention: math\ndropout: {attention: 0.1}\n", "segments-2"},
		{"phi norms", "arch: phi\ndtype: bf16\nqk_norm: true\nactivation: gelu_fast\n", "none"},
		{"roberta classifier", "arch: roberta\ndtype: bf16\nlabels: 5\n", "full"},
		{"roberta, labels of tokens", "arch: roberta\ndtype: amp-bf16\nlabels: 5\nlabels_of: tokens\n", "full"},
		{"bert, a span", "arch: bert\ndtype: fp32\nlabels: 2\nlabels_of: span\n", "every-2"},
		{"bert classifier", "arch: bert\ndtype: fp32\nlabels: 5\ndropout: {classifier: 0.3, residual: 0, embedding: 0}\n", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("settings.yaml", []byte(c.doc+sizes))
			if err != nil {
				t.Fatal(err)
			}
			s.Checkpoint = c.strategy
			checkMeta(t, graphOf(t, s), Options{Python: py, Device: "meta"})
		})
	}
}

// TestTorchActivation wraps an encoder layer's activation and the projection behind it: a module, where the layer was
// given one.
func TestTorchActivation(t *testing.T) {
	py := torchPython(t)
	s, err := model.Load("act.yaml", []byte("arch: torch-encoder\nL: 2\nS: 32\nH: 64\nB: 2\nheads: 4\nffn: 128\nlabels: 50\nactivation: gelu\ndtype: fp32\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := graphOf(t, s)
	p := &plan.Plan{Nodes: []plan.Node{{First: 0, Last: 1, Option: &plan.Option{Name: "act", Regions: []plan.Region{{Span: "act"}}}}}}
	m, err := Run(t.Context(), Options{Python: py, Device: "meta", Graph: g, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, judge(t, g, p), m, 0)
}

// checkMeta compares a measured step under the spec's named strategy with its prediction.
func checkMeta(t *testing.T, g *graph.Graph, o Options) {
	t.Helper()
	p := named(t, g, build.SpecOf(g).Checkpoint)
	o.Graph, o.Plan = g, p
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, judge(t, g, p), m, 0)
}
