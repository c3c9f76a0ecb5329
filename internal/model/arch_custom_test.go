package model

import (
	"strings"
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
)

// A wrong list of ops is refused in words that name the op; nothing is built.
func TestBlockOpsRefusals(t *testing.T) {
	for ops, want := range map[string]string{
		"linear":                         `op "linear": linear needs a width`,
		"linear 0":                       `op "linear 0": linear needs a width`,
		"dropout 1":                      `op "dropout 1": dropout needs a probability`,
		"conv 3":                         `op "conv 3": known are linear`,
		"linear 4H, gelu":                `a block gives width 32, the next one takes H 8`,
		"linear 4H, residual, linear H":  `op "residual": its input is 32 wide, not H 8`,
		"linear 4H, attention, linear H": `op "attention": its input is 32 wide, not H 8`,
	} {
		s := &spec.Spec{Arch: "custom", L: 1, B: 1, S: 1, H: 8, Heads: 1, Norm: "layernorm", Ops: strings.Split(ops, ", ")}
		if _, err := Build(s, build.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", ops, err, want)
		}
	}
}

// A block of norms, attention and MLP with two residuals has the parameters of a pre-norm transformer layer:
// 12H² + 13H with biases and two LayerNorms.
func TestCustomTransformerBlockParameters(t *testing.T) {
	const h, l = 64, 3
	s := &spec.Spec{
		Arch: "custom", L: l, B: 2, S: 16, H: h, Heads: 4, Precision: "bf16", Attention: "sdpa", Norm: "layernorm",
		Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
		Ops:  strings.Split("layernorm, attention, residual, layernorm, linear 4H, gelu, linear H, residual", ", "),
	}
	g, err := Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, p := range g.Params {
		n += p.Count
	}
	if want := int64(l * (12*h*h + 13*h)); n != want {
		t.Errorf("%d parameters, want %d", n, want)
	}
	if g.Layers != l {
		t.Errorf("%d layers, want %d", g.Layers, l)
	}
}
