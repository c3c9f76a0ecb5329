package torch

import (
	"testing"
	"time"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
)

// TestTorchCPUOps prices dropout, scaled-dot-product attention and autocast as the CPU dispatches them.
func TestTorchCPUOps(t *testing.T) {
	py := torchPython(t)
	for _, c := range []struct{ name, doc, strategy string }{
		{"dropout", "arch: gpt2\nL: 6\nS: 128\nH: 128\nB: 4\nheads: 4\nvocab: 1000\nmax_positions: 128\nattention: eager\ndtype: fp32\n", "every-2"},
		{"autocast", "arch: gpt2\nL: 4\nS: 128\nH: 256\nB: 4\nheads: 4\nvocab: 1000\nmax_positions: 128\nattention: eager\ndtype: amp-bf16\n", "none"},
		{"sdpa", "arch: llama\nL: 6\nS: 128\nH: 128\nB: 4\nheads: 4\nffn: 352\nvocab: 1000\nattention: sdpa\ndtype: fp32\n", "every-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("small.yaml", []byte(c.doc))
			if err != nil {
				t.Fatal(err)
			}
			g, err := model.Build(s, build.Options{CPU: true})
			if err != nil {
				t.Fatal(err)
			}
			p := named(t, g, c.strategy)
			m, err := Run(t.Context(), Options{Python: py, Device: "cpu", Graph: g, Plan: p, Timeout: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			agree(t, judge(t, g, p), m, cpuTolerance)
		})
	}
}
