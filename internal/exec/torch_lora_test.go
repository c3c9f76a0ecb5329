package exec

import (
	"testing"

	"ckptplan/internal/model"
)

// TestTorchLoRAInputs: with adapters under checkpointing the embeddings of encoder and decoder both require gradients,
// so that the first layer of each saves what the others do. Without the decoder's, forward was 2 % lower.
func TestTorchLoRAInputs(t *testing.T) {
	py := torchPython(t)
	s, err := model.Load("t5.yaml", []byte("arch: t5\nL: 2\nS: 32\nH: 64\nB: 2\nheads: 4\nhead_dim: 16\nffn: 128\nvocab: 200\n"+
		"dtype: fp32\nattention: eager\ncheckpoint: full\ntrain: {lora: {r: 4, targets: [q, v]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := build(t, s)
	p := named(t, g, "full")
	m, err := RunTorch(t.Context(), TorchOptions{Python: py, Device: "meta", Graph: g, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Compare(judge(t, g, p), m, 0.0001).Lines[:2] {
		if !d.Within {
			t.Errorf("%s: predicted %d, measured %d", d.What, d.Predicted, d.Measured)
		}
	}
}
