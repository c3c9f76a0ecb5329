package model

// rotaryTable is the rotary embedding's cos and sin, [1, S, dim], made once a forward in fp32 without gradient:
//
//	freqs = (inv_freq[None, :, None] @ position_ids[:, None, :]).transpose(1, 2)
//	emb = cat(freqs, freqs); cos, sin = emb.cos() * s, emb.sin() * s; cast to the activations' dtype
func (b *Builder) rotaryTable(invFreq, positions TensorID, dim int64, dt DType) (cos, sin TensorID) {
	s := b.tensor(positions).Shape.At(-1)
	inv := b.to(invFreq, F32)
	pos := b.plain("aten._to_copy", F32, Shape(1, 1, s), positions)
	freqs := b.plain("aten.bmm", F32, Shape(1, dim/2, s), inv, pos)
	b.keep(inv, pos)
	emb := b.plain("aten.cat", F32, Shape(1, s, dim), freqs)
	b.g.Ops[b.next()-1].Attr.A = asAttr(b.constants.Interleaved) // each angle beside itself, not the row beside itself
	c := b.withScalar(b.plain("aten.mul", F32, Shape(1, s, dim), b.plain("aten.cos", F32, Shape(1, s, dim), emb)), 1)
	d := b.withScalar(b.plain("aten.mul", F32, Shape(1, s, dim), b.plain("aten.sin", F32, Shape(1, s, dim), emb)), 1)
	b.keep(c, d)
	cos = b.to(c, dt)
	sin = b.to(d, dt)
	b.keep(inv, pos, freqs, emb, c, d)
	return cos, sin
}

// rotate is (x * cos) + (rotate_half(x) * sin) for x [B, a, S, D] and tables seen as [1, 1, S, D].
func (b *Builder) rotate(x, cos, sin TensorID) TensorID {
	c, s := b.unsqueeze(cos, 1), b.unsqueeze(sin, 1)
	xc := b.mul(x, c)
	xs := b.mul(b.rotateHalf(x), s)
	return b.add(xc, xs)
}

// rotateHalf is cat(-x[..., D/2:], x[..., :D/2]).
func (b *Builder) rotateHalf(x TensorID) TensorID {
	d := b.tensor(x).Shape.At(-1)
	lo := b.slice(x, -1, 0, d/2)
	hi := b.slice(x, -1, d/2, d)
	return b.cat(-1, b.unary(OpNeg, hi), lo)
}

// inverseFrequencies are rotary's buffers, of which the first is read.
func (b *Builder) inverseFrequencies() TensorID {
	half := b.rotaryDim() / 2
	b.static("original_inv_freq", Buffer, b.dtype, Shape(half))
	return b.static("inv_freq", Buffer, b.dtype, Shape(half))
}

// rotaryDim is how many elements of a head are rotated: the width of the table, arange(0, d, 2) twice, at which the class
// cuts the head. It is even where d is not.
// Source: transformers/models/gpt_neox/modeling_gpt_neox.py, compute_default_rope_parameters and apply_rotary_pos_emb.
func (b *Builder) rotaryDim() int64 {
	d := int64(float64(b.spec.HeadDim) * b.spec.Rotary)
	return min(d+d%2, int64(b.spec.HeadDim))
}
