package model

var starcoder2 = class{
	arch: "starcoder2", heads: []string{"Starcoder2ForCausalLM"},
	modules: attnFirst,
	spec: Spec{
		L: 30, H: 3072, Heads: 24, KVHeads: 2, FFN: 12288, Vocab: 49152, MaxS: 4096, Norm: "layernorm", NormOrder: "pre",
		Activation: "gelu_tanh", Positions: "rotary", Rotary: 1, Bias: allBias, Tied: true,
	},
	keys: concat(sizeKeys, groupKeys, tiedKey, slidingKeys, []hfKey{
		{"use_bias", "bias.qkv bias.out bias.mlp"}, {"residual_dropout", "dropout.residual"}, {"embedding_dropout", "dropout.embedding"},
	}),
	forward: forward.starcoder2,
	linears: []string{"q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"},
	targets: qvTargets,
	parts:   attentionParts.with(parts{"mlp": module("mlp"), "norm2": fan("post_attention_layernorm", "mlp", "c_fc"), "act": fan("mlp.act", "mlp", "c_proj")}),
}

// starcoder2 is Starcoder2ForCausalLM: LayerNorm, biases, a plain MLP, dropout inside both sublayers.
// Source: transformers/models/starcoder2/modeling_starcoder2.py.
func (b forward) starcoder2() {
	d := llamaClass()
	d.attnDropout, d.mlp = true, forward.starcoderMLP
	b.decoder(d)
}

// starcoderMLP is dropout(c_proj(act(c_fc(x)))).
func (b forward) starcoderMLP(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	u := b.project(p, "c_fc", x, h, f, s.Bias.MLP)
	b.span("norm2", norm)
	act := b.next()
	y := b.activation(s.Activation, u)
	o := b.project(p, "c_proj", y, f, h, s.Bias.MLP)
	b.keep(y)
	b.span("act", act)
	out := b.dropout(o, s.Dropout.Residual)
	b.keep(o, x)
	b.span("mlp", first)
	return out
}
