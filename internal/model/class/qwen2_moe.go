package class

import (
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var qwen2MoE = classifying(Class{
	Arch: "qwen2-moe", Heads: []string{"Qwen2MoeForCausalLM"},
	Modules: Concat(attnProjections, []string{"self_attn.", "mlp.gate.", "mlp.experts.", "mlp.shared_expert.", "mlp.", ""}),
	Spec: spec.Spec{
		L: 24, H: 2048, Heads: 16, KVHeads: 16, FFN: 5632, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre", Bias: spec.Bias{QKV: true},
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, MoE: &spec.MoE{Experts: 60, TopK: 4, FFN: 1408, SharedFFN: 5632, SparseStep: 1},
	},
	Keys: Concat(sizeKeys, groupKeys, tiedKey, typedKeys, sparseKeys, []hfKey{
		{"qkv_bias", "bias.qkv"}, {"shared_expert_intermediate_size", "moe.shared_ffn"},
	}),
	Only:    moeOnly,
	Forward: Forward.qwen2MoE, KeepsWindow: true,
	Linears: Concat(gatedLinears, []string{"shared_expert_gate"}),
	Targets: qvTargets,
	Derive:  qwen2MoEWindow,
	encode:  qwenToConfig,
	parts:   attentionParts.with(parts{"mlp": module("mlp")}),
}, forSequences, forTokens)

// qwen2MoEWindow: every other layer slides, from the first to max_window_layers (28), unless layer_types says otherwise.
func qwen2MoEWindow(c *Config, s *spec.Spec) {
	qwenSlides(c, s)
	if c.Given("layer_types") || s.SlidingWindow == 0 || s.L > spec.MaxLayers {
		return
	}
	until := c.count("max_window_layers", 28)
	s.LayerTypes = slidesBut(2, s.L)
	for i := until; i < s.L; i++ {
		s.LayerTypes[i] = "full_attention"
	}
}

// qwen2MoE is Qwen2MoeForCausalLM: beside its experts each token passes a shared one, behind a gate.
// Source: transformers/models/qwen2_moe/modeling_qwen2_moe.py.
func (b Forward) qwen2MoE() {
	d := llamaClass()
	d.windowless = true
	d.mlp = func(b Forward, p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
		if denseLayer(b.Spec.MoE, b.G.Blocks[b.Block].Layer) {
			return b.gatedMLP(p, norm, x)
		}
		return b.gatedShared(p, x)
	}
	b.decoder(d)
}

// gatedShared is experts(x) + sigmoid(shared_expert_gate(x)) * shared_expert(x).
func (b Forward) gatedShared(p string, x graph.TensorID) graph.TensorID {
	first := b.Next()
	shape := b.Tensor(x).Shape
	h := shape.At(-1)
	tokens := b.Reshape(x, shape.Count()/h, h)
	shared := b.sharedMLP(p+"shared_expert.", tokens)
	logits, weights, index := b.router(p+"gate.", tokens)
	y := b.experts(p+"experts.", graph.None, tokens, index, weights, expertKind{})
	gated := b.Mul(b.Unary(graph.OpSigmoid, b.Project(p, "shared_expert_gate", tokens, h, 1, false)), shared)
	b.Keep(shared)
	sum := b.Add(y, gated)
	b.Keep(x, y, gated, logits, weights, index)
	out := b.Reshape(sum, shape.D[:shape.N]...)
	b.Span("mlp", first)
	return out
}

// sharedMLP is the gated MLP that all tokens pass.
func (b Forward) sharedMLP(p string, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.MoE.SharedFFN)
	act := b.Activation(s.Activation, b.Project(p, "gate_proj", x, h, f, s.Bias.MLP))
	y := b.Mul(act, b.Project(p, "up_proj", x, h, f, s.Bias.MLP))
	out := b.Project(p, "down_proj", y, f, h, s.Bias.MLP)
	b.Keep(x, y)
	return out
}
