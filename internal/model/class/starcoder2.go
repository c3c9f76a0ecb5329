package class

import (
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var starcoder2 = classifying(Class{
	Arch: "starcoder2", Heads: []string{"Starcoder2ForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 30, H: 3072, Heads: 24, KVHeads: 2, FFN: 12288, Vocab: 49152, MaxS: 4096, Norm: "layernorm", NormOrder: "pre",
		Activation: "gelu_tanh", Positions: "rotary", Rotary: 1, Bias: allBias, Tied: true,
	},
	Keys: Concat(sizeKeys, groupKeys, tiedKey, slidingKeys, []hfKey{
		{"use_bias", "bias.qkv bias.out bias.mlp"}, {"residual_dropout", "dropout.residual"}, {"embedding_dropout", "dropout.embedding"},
	}),
	Forward: Forward.starcoder2,
	Linears: []string{"q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"},
	Targets: qvTargets,
	parts:   attentionParts.with(parts{"mlp": module("mlp"), "norm2": fan("post_attention_layernorm", "mlp", "c_fc"), "act": fan("mlp.act", "mlp", "c_proj")}),
}, forSequences, forTokens)

// starcoder2 is Starcoder2ForCausalLM: LayerNorm, biases, a plain MLP, dropout inside both sublayers.
// Source: transformers/models/starcoder2/modeling_starcoder2.py.
func (b Forward) starcoder2() {
	d := llamaClass()
	d.attnDropout, d.mlp = true, Forward.starcoderMLP
	b.decoder(d)
}

// starcoderMLP is dropout(c_proj(act(c_fc(x)))).
func (b Forward) starcoderMLP(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	u := b.Project(p, "c_fc", x, h, f, s.Bias.MLP)
	b.Span("norm2", norm)
	act := b.Next()
	y := b.Activation(s.Activation, u)
	o := b.Project(p, "c_proj", y, f, h, s.Bias.MLP)
	b.Keep(y)
	b.Span("act", act)
	out := b.Dropout(o, s.Dropout.Residual)
	b.Keep(o, x)
	b.Span("mlp", first)
	return out
}
