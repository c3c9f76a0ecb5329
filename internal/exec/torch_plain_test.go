package exec

import (
	"testing"

	"ckptplan/internal/model"
)

// TestTorchPlain holds models in plain PyTorch, which have no Hugging Face class behind them, against the prediction
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
		{"arch: torch-encoder\ndtype: fp32\npositions: learned\nmax_positions: 128\n" + encoder, "none"},
		{"arch: torch-encoder\ndtype: bf16\nnorm_order: pre\ncausal: true\n" + encoder, "selective-mlp"},
		{"arch: torch-encoder\ndtype: amp-bf16\nneed_weights: true\nnorm_order: pre\nactivation: gelu\n" + encoder, "full"},
		{"arch: custom\nL: 4\nS: 64\nH: 128\nB: 4\nheads: 1\ndtype: fp32\nops: [layernorm, linear 4H, gelu, linear H, residual]\n", "every-2"},
	} {
		t.Run(c.doc[6:20]+" "+c.strategy, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("plain.yaml", []byte(c.doc))
			if err != nil {
				t.Fatal(err)
			}
			s.Checkpoint = c.strategy
			g := build(t, s)
			p := named(t, g, c.strategy)
			m, err := RunTorch(t.Context(), TorchOptions{Python: py, Device: "meta", Graph: g, Plan: p, Plain: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range Compare(judge(t, g, p), m, 0.005).Lines {
				t.Logf("%-16s predicted %d measured %d %+.3f%%", d.What, d.Predicted, d.Measured, 100*d.Share)
				if !d.Within {
					t.Errorf("%s: predicted %d, measured %d", d.What, d.Predicted, d.Measured)
				}
			}
		})
	}
}
