package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var neox = Class{
	Arch: "gpt-neox", Heads: []string{"GPTNeoXForCausalLM"},
	Modules: []string{"input_layernorm.", "post_attention_layernorm.", ""},
	Spec: spec.Spec{
		L: 44, H: 6144, Heads: 64, FFN: 24576, Vocab: 50432, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu",
		Positions: "rotary", Rotary: 0.25, Bias: allBias, ParallelResidual: true,
	},
	Keys: Concat(sizeKeys, tiedKey, attnBias, rotaryKey, []hfKey{
		{"rotary_pct", "rotary_fraction"},
		{"use_parallel_residual", "parallel_residual"},
		{"attention_dropout", "dropout.attention"},
		{"hidden_dropout", "dropout.embedding dropout.residual"},
	}),
	Forward: Forward.neox,
	Linears: []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	Targets: []string{"query_key_value"}, head: "embed_out",
	parts: parts{
		"attn": module("attention"), "mlp": module("mlp"), "core": core("attention"), "norm1": fan("input_layernorm", "attention", "query_key_value"),
		"norm2": fan("post_attention_layernorm", "mlp", "dense_h_to_4h"), "act": fan("mlp.act", "mlp", "dense_4h_to_h"),
	},
}

// neox is GPTNeoXForCausalLM. Source: transformers/models/gpt_neox/modeling_gpt_neox.py.
func (b Forward) neox() {
	b.rotaryBody(rotaryBody{
		embed: "gpt_neox.embed_in", layers: "gpt_neox.layers", norm: "gpt_neox.final_layer_norm", head: b.Class.HeadName(), layer: b.neoxLayer,
	})
}

func (b Forward) neoxLayer(p string, x, pos, cos, sin, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	h := int64(s.H)
	first := b.Next()
	b.Argument(pos)
	norm1 := b.Next()
	y := b.Norm(x, p+"input_layernorm", h)
	a := b.neoxAttention(p+"attention.", norm1, y, pos, cos, sin, mask)
	b.Keep(y)
	a = b.Dropout(a, s.Dropout.Residual)

	if !s.ParallelResidual {
		a = b.Add(a, x)
	}
	norm2 := b.Next()
	from := a
	if s.ParallelResidual {
		from = x
	}
	y = b.Norm(from, p+"post_attention_layernorm", h)
	m := b.Mlp(p+"mlp.", "dense_h_to_4h", "dense_4h_to_h", norm2, y)
	m = b.Dropout(m, s.Dropout.Residual)
	out := b.Add(m, a)
	if s.ParallelResidual {
		out = b.Add(out, x)
	}
	b.Keep(x, a, m)
	b.EndLayer(first)
	return out
}

func (b Forward) neoxAttention(p string, norm graph.OpID, x, pos, cos, sin, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	qkv := b.Heads(p, "query_key_value", x, h, a, 3*d, s.Bias.QKV)
	b.Span("norm1", norm)
	parts := b.Split(qkv, 3, d, d, d)
	q, k, _, _ := b.rotatePart(parts[0], parts[1], cos, sin)
	v := parts[2]
	o := b.Core(q, k, v, build.Attention{Mask: mask, Dropout: s.Dropout.Attention, Causal: true, Groups: 1, Fp32Softmax: true}, pos)
	o = b.Contiguous(b.Reshape(o, n, seq, h))
	out := b.Project(p, "dense", o, h, h, s.Bias.Out)
	b.Keep(x, qkv, q, k, o)
	b.Span("attn", first)
	return out
}

// rotatePart rotates the first elements of each head of q and k, as many as the tables have, and puts the others
// after them. It gives the rotated parts too, for callers whose frame holds them.
func (b Forward) rotatePart(q0, k0, cos, sin graph.TensorID) (q, k, qr, kr graph.TensorID) {
	d, r := b.Tensor(q0).Shape.At(-1), b.Tensor(cos).Shape.At(-1)
	qx, qp := b.Slice(q0, -1, 0, r), b.Slice(q0, -1, r, d)
	kx, kp := b.Slice(k0, -1, 0, r), b.Slice(k0, -1, r, d)
	qr = b.Rotate(qx, cos, sin)
	kr = b.Rotate(kx, cos, sin)
	q = b.Cat(-1, qr, qp)
	k = b.Cat(-1, kr, kp)
	b.Keep(q0, k0)
	return q, k, qr, kr
}
