package exec

import (
	"testing"

	"ckptplan/internal/model"
)

// TestTorchT5 holds every figure of an encoder-decoder under checkpointing against the prediction. Two things of its
// class take a gradient then: the embeddings of encoder and decoder both, if the weights are frozen (without the
// decoder's, forward was 2 % lower), and the cross-attention's position bias of zeros (without it, backward was).
func TestTorchT5(t *testing.T) {
	py := torchPython(t)
	for _, c := range []struct{ name, strategy, train string }{
		{"full, adapters", "full", ", train: {lora: {r: 4, targets: [q, v]}}"},
		{"every other layer", "every-2", ""},
		{"the attentions, adapters", "selective-attn", ", train: {lora: {r: 4, targets: [q, v]}}"},
		{"adapters beside all layers", "selective-mlp", ", train: {lora: {r: 4, targets: [all-linear]}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("t5.yaml", []byte("{arch: t5, L: 2, S: 32, H: 64, B: 2, heads: 4, head_dim: 16, ffn: 128, vocab: 200, "+
				"dtype: fp32, attention: eager, checkpoint: "+c.strategy+c.train+"}"))
			if err != nil {
				t.Fatal(err)
			}
			g := build(t, s)
			p := named(t, g, c.strategy)
			m, err := RunTorch(t.Context(), TorchOptions{Python: py, Device: "meta", Graph: g, Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			agree(t, judge(t, g, p), m, 0)
		})
	}
}
