package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// RotaryTable is the rotary embedding's cos and sin, [1, S, dim], made once a forward in fp32 without gradient:
//
//	freqs = (inv_freq[None, :, None] @ position_ids[:, None, :]).transpose(1, 2)
//	emb = cat(freqs, freqs); cos, sin = emb.cos() * s, emb.sin() * s; cast to the activations' dtype
func (b *Builder) RotaryTable(invFreq, positions graph.TensorID, dim int64, dt dtype.DType) (cos, sin graph.TensorID) {
	s := b.Tensor(positions).Shape.At(-1)
	inv := b.To(invFreq, dtype.F32)
	pos := b.Plain("aten._to_copy", dtype.F32, graph.Shape(1, 1, s), positions)
	freqs := b.Plain("aten.bmm", dtype.F32, graph.Shape(1, dim/2, s), inv, pos)
	b.Keep(inv, pos)
	emb := freqs
	if b.Constants.Single {
		dim /= 2
	} else {
		emb = b.Plain("aten.cat", dtype.F32, graph.Shape(1, s, dim), freqs)
		b.G.Ops[b.Next()-1].Attr.A = asAttr(b.Constants.Interleaved) // each angle beside itself, not the row beside itself
	}
	c := b.WithScalar(b.Plain("aten.mul", dtype.F32, graph.Shape(1, s, dim), b.Plain("aten.cos", dtype.F32, graph.Shape(1, s, dim), emb)), 1)
	d := b.WithScalar(b.Plain("aten.mul", dtype.F32, graph.Shape(1, s, dim), b.Plain("aten.sin", dtype.F32, graph.Shape(1, s, dim), emb)), 1)
	b.Keep(c, d)
	cos = b.To(c, dt)
	sin = b.To(d, dt)
	b.Keep(inv, pos, freqs, emb, c, d)
	return cos, sin
}

// Rotate is (x * cos) + (rotate_half(x) * sin) for x [B, a, S, D] and tables seen as [1, 1, S, D].
func (b *Builder) Rotate(x, cos, sin graph.TensorID) graph.TensorID {
	c, s := b.Unsqueeze(cos, 1), b.Unsqueeze(sin, 1)
	xc := b.Mul(x, c)
	xs := b.Mul(b.rotateHalf(x), s)
	return b.Add(xc, xs)
}

// rotateHalf is cat(-x[..., D/2:], x[..., :D/2]).
func (b *Builder) rotateHalf(x graph.TensorID) graph.TensorID {
	d := b.Tensor(x).Shape.At(-1)
	lo := b.Slice(x, -1, 0, d/2)
	hi := b.Slice(x, -1, d/2, d)
	return b.Cat(-1, b.Unary(graph.OpNeg, hi), lo)
}

// InverseFrequencies are rotary's buffers, of which the first is read.
func (b *Builder) InverseFrequencies() graph.TensorID {
	half := b.RotaryDim() / 2
	b.Static("original_inv_freq", graph.Buffer, b.Dtype, graph.Shape(half))
	return b.Static("inv_freq", graph.Buffer, b.Dtype, graph.Shape(half))
}

// RotaryDim is how many elements of a head are rotated: the width of the table, arange(0, d, 2) twice, at which the class
// cuts the head. It is even where d is not.
// Source: transformers/models/gpt_neox/modeling_gpt_neox.py, compute_default_rope_parameters and apply_rotary_pos_emb.
func (b *Builder) RotaryDim() int64 {
	d := int64(float64(b.Spec.HeadDim) * b.Spec.Rotary)
	return min(d+d%2, int64(b.Spec.HeadDim))
}
