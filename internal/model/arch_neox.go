package model

// neox is GPTNeoXForCausalLM. Source: transformers/models/gpt_neox/modeling_gpt_neox.py.
func (b *Builder) neox() {
	b.rotaryBody(rotaryBody{
		embed: "gpt_neox.embed_in", layers: "gpt_neox.layers", norm: "gpt_neox.final_layer_norm", head: "embed_out", layer: b.neoxLayer,
	})
}

// rotaryDim is how many elements of a head are rotated: the width of the table, arange(0, d, 2) twice, at which the class
// cuts the head. It is even where d is not.
// Source: transformers/models/gpt_neox/modeling_gpt_neox.py, compute_default_rope_parameters and apply_rotary_pos_emb.
func (s *Spec) rotaryDim() int64 {
	d := int64(float64(s.HeadDim) * s.Rotary)
	return min(d+d%2, int64(s.HeadDim))
}

// inverseFrequencies are rotary's buffers, of which the first is read.
func (b *Builder) inverseFrequencies() TensorID {
	half := b.spec.rotaryDim() / 2
	b.static("original_inv_freq", Buffer, b.dtype, Shape(half))
	return b.static("inv_freq", Buffer, b.dtype, Shape(half))
}

func (b *Builder) neoxLayer(p string, x, pos, cos, sin, mask TensorID) TensorID {
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

func (b *Builder) neoxAttention(p string, norm OpID, x, pos, cos, sin, mask TensorID) TensorID {
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
func (b *Builder) rotatePart(q0, k0, cos, sin TensorID) (q, k, qr, kr TensorID) {
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
