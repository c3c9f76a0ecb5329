package model

var neox = class{
	arch: "gpt-neox", heads: []string{"GPTNeoXForCausalLM"},
	modules: []string{"input_layernorm.", "post_attention_layernorm.", ""},
	spec: Spec{
		L: 44, H: 6144, Heads: 64, FFN: 24576, Vocab: 50432, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu",
		Positions: "rotary", Rotary: 0.25, Bias: allBias, ParallelResidual: true,
	},
	keys: concat(sizeKeys, tiedKey, attnBias, rotaryKey, []hfKey{
		{"rotary_pct", "rotary_fraction"},
		{"use_parallel_residual", "parallel_residual"},
		{"attention_dropout", "dropout.attention"},
		{"hidden_dropout", "dropout.embedding dropout.residual"},
	}),
	forward: forward.neox,
	linears: []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	targets: []string{"query_key_value"},
	parts: parts{
		"attn": module("attention"), "mlp": module("mlp"), "core": core("attention"), "norm1": fan("input_layernorm", "attention", "query_key_value"),
		"norm2": fan("post_attention_layernorm", "mlp", "dense_h_to_4h"), "act": fan("mlp.act", "mlp", "dense_4h_to_h"),
	},
}

// neox is GPTNeoXForCausalLM. Source: transformers/models/gpt_neox/modeling_gpt_neox.py.
func (b forward) neox() {
	b.rotaryBody(rotaryBody{
		embed: "gpt_neox.embed_in", layers: "gpt_neox.layers", norm: "gpt_neox.final_layer_norm", head: "embed_out", layer: b.neoxLayer,
	})
}

func (b forward) neoxLayer(p string, x, pos, cos, sin, mask TensorID) TensorID {
	s := b.spec
	h := int64(s.H)
	first := b.next()
	b.argument(pos)
	norm1 := b.next()
	y := b.norm(x, p+"input_layernorm", h)
	a := b.neoxAttention(p+"attention.", norm1, y, pos, cos, sin, mask)
	b.keep(y)
	a = b.dropout(a, s.Dropout.Residual)

	if !s.ParallelResidual {
		a = b.add(a, x)
	}
	norm2 := b.next()
	from := a
	if s.ParallelResidual {
		from = x
	}
	y = b.norm(from, p+"post_attention_layernorm", h)
	m := b.mlp(p+"mlp.", "dense_h_to_4h", "dense_4h_to_h", norm2, y)
	m = b.dropout(m, s.Dropout.Residual)
	out := b.add(m, a)
	if s.ParallelResidual {
		out = b.add(out, x)
	}
	b.keep(x, a, m)
	b.endLayer(first)
	return out
}

func (b forward) neoxAttention(p string, norm OpID, x, pos, cos, sin, mask TensorID) TensorID {
	s := b.spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.next()
	qkv := b.heads(p, "query_key_value", x, h, a, 3*d, s.Bias.QKV)
	b.span("norm1", norm)
	parts := b.split(qkv, 3, d, d, d)
	q, k, _, _ := b.rotatePart(parts[0], parts[1], cos, sin)
	v := parts[2]
	o := b.core(q, k, v, attention{mask: mask, dropout: s.Dropout.Attention, causal: true, groups: 1, fp32Softmax: true}, pos)
	o = b.contiguous(b.reshape(o, n, seq, h))
	out := b.project(p, "dense", o, h, h, s.Bias.Out)
	b.keep(x, qkv, q, k, o)
	b.span("attn", first)
	return out
}

// rotatePart rotates the first elements of each head of q and k, as many as the tables have, and puts the others
// after them. It gives the rotated parts too, for callers whose frame holds them.
func (b forward) rotatePart(q0, k0, cos, sin TensorID) (q, k, qr, kr TensorID) {
	d, r := b.tensor(q0).Shape.At(-1), b.tensor(cos).Shape.At(-1)
	qx, qp := b.slice(q0, -1, 0, r), b.slice(q0, -1, r, d)
	kx, kp := b.slice(k0, -1, 0, r), b.slice(k0, -1, r, d)
	qr = b.rotate(qx, cos, sin)
	kr = b.rotate(kx, cos, sin)
	q = b.cat(-1, qr, qp)
	k = b.cat(-1, kr, kp)
	b.keep(q0, k0)
	return q, k, qr, kr
}
