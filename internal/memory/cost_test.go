package memory

import (
	"slices"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
)

// The optimizer's time is that of its kernels' reads and writes, in lists of the parameters' size, as
// torch/optim/adamw.py (_multi_tensor_adamw), sgd.py and FusedAdamW's kernel (fused_adam_utils.cuh) name them.
func TestOptimizerTraffic(t *testing.T) {
	foreach := []int64{
		2, // param.mul_(1 − lr·decay): reads and writes it
		3, // exp_avg.lerp_(grad): reads both, writes exp_avg
		2, // exp_avg_sq.mul_(β2)
		3, // exp_avg_sq.addcmul_(grad, grad)
		2, // sqrt(exp_avg_sq): reads it, writes another
		2, // div_ by √(1 − β2^t)
		2, // add_(ε)
		4, // param.addcdiv_(exp_avg, denominator): reads three, writes param
	}
	card, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.LoadPreset("llama-3.2-1b")
	if err != nil {
		t.Fatal(err)
	}
	for kind, kernels := range map[string][]int64{
		"adamw": foreach, "adamw-loop": foreach,
		"adamw-fused": {4, 3}, // reads parameter, gradient and two moments; writes all but the gradient
		"sgd":         {3},    // param.add_(grad)
		"none":        nil,
	} {
		s.Train.Optimizer = kind
		tl := timed(t, s, card)
		var lists int64
		for _, n := range kernels {
			lists += n
		}
		want := card.OpTime(0, 1_235_814_400*2*lists, dtype.F32, false) // parameters in bf16
		if tl.Times.Optimizer != want {
			t.Errorf("%s: %d ns, counted %d", kind, tl.Times.Optimizer, want)
		}
	}
}

// Attention's backward is five products of a head's S×S or S×D matrices where forward is two (FlashAttention-2, section 3.1:
// scores again, then the gradients of v, of the scores, of q and of k); a causal mask halves both. By hand, for one layer:
// 5 products · 2·B·a·S·S·D FLOPs / 2.
func TestAttentionBackwardWork(t *testing.T) {
	s, err := model.LoadPreset("llama-3.2-1b") // 32 heads of 64
	if err != nil {
		t.Fatal(err)
	}
	s.L, s.B, s.S = 1, 3, 512
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := Compile(g)
	for what, c := range map[string]struct {
		kernels []work
		want    int64
	}{
		"forward":  {p.kernels.list, 2 * 2 * 3 * 32 * 512 * 512 * 64 / 2},
		"backward": {p.tape.kernels.list, 5 * 2 * 3 * 32 * 512 * 512 * 64 / 2},
	} {
		if !slices.ContainsFunc(c.kernels, func(w work) bool { return w.mat && w.flops == c.want }) {
			t.Errorf("no kernel of %s does %d FLOPs: %v", what, c.want, c.kernels)
		}
	}
}

// timed is a step that keeps everything.
func timed(t *testing.T, s *spec.Spec, card *gpu.Sheet) *Timeline {
	t.Helper()
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pl, err := plan.Named("none", g.Layers)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := Judge(Compile(g), pl, card)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}
