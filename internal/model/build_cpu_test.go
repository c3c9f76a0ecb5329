package model

import (
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
)

// TestCPUAutocast: of the ops that CUDA's autocast runs in fp32, the CPU's leaves the power in GELU in 16 bits; a loss
// is in fp32 with both.
func TestCPUAutocast(t *testing.T) {
	s, err := Load("x.yaml", []byte("arch: gpt2\nL: 1\nS: 8\nH: 16\nB: 1\nheads: 2\nvocab: 10\nmax_positions: 8\ndtype: amp-bf16\nattention: eager\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cpu  bool
		want map[string]dtype.DType
	}{
		{"CUDA", false, map[string]dtype.DType{"aten.pow": dtype.F32, "aten._log_softmax": dtype.F32, "aten.nll_loss_forward": dtype.F32, "aten.bmm": dtype.BF16}},
		{"CPU", true, map[string]dtype.DType{"aten.pow": dtype.BF16, "aten._log_softmax": dtype.F32, "aten.nll_loss_forward": dtype.F32, "aten.bmm": dtype.BF16}},
	} {
		g, err := Build(s, build.Options{CPU: c.cpu})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := range g.Ops {
			name := g.Ops[i].Row().Aten
			want, asked := c.want[name]
			if !asked {
				continue
			}
			seen[name] = true
			for _, x := range g.Outputs(&g.Ops[i])[:1] {
				if got := g.Tensors[x].DType; got != want {
					t.Errorf("%s: %s gives %s, want %s", c.name, name, got, want)
				}
			}
		}
		if len(seen) != len(c.want) {
			t.Errorf("%s: saw %v", c.name, seen)
		}
	}
}
