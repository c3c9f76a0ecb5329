package memory

import (
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
)

// TestRandomState: on the CPU every checkpoint keeps the generator's state from its forward to its last node, one inside
// another as well, and a recompute takes more of them and frees them. internal/exec measures the same steps.
func TestRandomState(t *testing.T) {
	s, err := model.Load("x.yaml", []byte("{arch: gpt2, L: 6, S: 16, H: 16, B: 1, heads: 2, vocab: 50, max_positions: 16, dtype: fp32, attention: eager}"))
	if err != nil {
		t.Fatal(err)
	}
	for strategy, checkpoints := range map[string]int64{"none": 0, "every-2": 3, "full": 6, "segments-3": 2, "nested-3": 8, "offload": 0, "offload-inputs": 6, "selective": 6} {
		g, err := model.Build(s, build.Options{CPU: true})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Named(strategy, g.Layers)
		if err != nil {
			t.Fatal(err)
		}
		judge := func() *Timeline {
			tl, err := Judge(Compile(g), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			return tl
		}
		with := judge()
		state := g.RandomState
		g.RandomState = 0
		without := judge()
		if got, want := with.Second.BeforeBackward-without.Second.BeforeBackward, checkpoints*state; got != want {
			t.Errorf("%s: %d bytes of random state before backward, want %d", strategy, got, want)
		}
		if got, want := with.Second.AfterStep, without.Second.AfterStep; got != want {
			t.Errorf("%s: %d bytes after the step, %d without random state", strategy, got, want)
		}
	}
}
