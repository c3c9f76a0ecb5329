package model

import "math"

// mathAttention is _scaled_dot_product_attention_math, SDPA without a fused kernel. 16-bit inputs are raised to fp32
// first, q and k are scaled by √scale each, and autocast is off inside. The locals of its C++ frame live until it
// returns. On CUDA the mask is added in place and dropout is one kernel; under a tracer on the meta device neither is.
// Source: aten/src/ATen/native/transformers/attention.cpp.
func (b *Builder) mathAttention(q, k, v, mask TensorID, a attention) TensorID {
	amp := b.amp
	b.amp = false
	low := b.tensor(q).DType
	if mask >= 0 && b.tensor(mask).DType == Bool {
		mask = b.plain("aten.where", low, b.tensor(mask).Shape, mask)
	}
	if low.Low() {
		q, k, v = b.to(q, F32), b.to(k, F32), b.to(v, F32)
	}
	s, sk := b.tensor(q).Shape, b.tensor(k).Shape.D[2]
	root := math.Sqrt(a.scale(b.tensor(q)))
	qs := b.withScalar(b.mulScalar(q), root)
	if mask < 0 && a.causal {
		ones := b.plain("aten.ones", Bool, Shape(s.D[2], sk))
		tril := b.plain("aten.tril", Bool, Shape(s.D[2], sk), ones)
		mask = b.plain("aten.where", F32, Shape(s.D[2], sk), tril)
	}
	kr, vr := k, v
	if a.groups > 1 { // enable_gqa
		groups := s.D[1] / b.tensor(k).Shape.D[1]
		kr, vr = b.interleave(k, groups), b.interleave(v, groups)
	}
	ks := b.withScalar(b.mulScalar(b.transpose(kr, 2, 3)), root)
	scores := b.bmm4(qs, b.expandHeads(ks, s.D[1]))
	b.keep(ks)
	if mask >= 0 {
		scores = b.addInPlace(scores, mask)
	}
	w := b.safeSoftmax(scores)
	b.keep(scores)
	w = b.dropout(w, a.dropout)
	weights := b.to(w, low) // the op's second result
	o := b.to(b.bmm4(w, b.expandHeads(vr, s.D[1])), low)
	b.keep(q, k, v, qs, kr, vr, w, weights, mask)
	b.amp = amp
	return o
}

// interleave is x.repeat_interleave(n, 1) for x [B, kv, S, D], which copies even where a view would do.
func (b *Builder) interleave(x TensorID, n int64) TensorID {
	if n == 1 {
		return x
	}
	s := b.tensor(x).Shape
	e := b.clone(b.expand(b.unsqueeze(x, 2), s.D[0], s.D[1], n, s.D[2], s.D[3]))
	return b.reshape(e, s.D[0], s.D[1]*n, s.D[2], s.D[3])
}

// safeSoftmax is _safe_softmax: rows that are −∞ throughout give zeros, which a scalar on the device holds.
func (b *Builder) safeSoftmax(x TensorID) TensorID {
	w := b.softmax(x, b.tensor(x).DType)
	s := b.tensor(x).Shape
	masked := b.plain("aten.isneginf", Bool, s, x)
	rows := b.plain("aten.all", Bool, s.With(-1, 1), masked)
	zero := b.plain("aten.scalar_tensor", b.tensor(w).DType, Shape())
	b.keep(masked, rows, zero, x)
	return w
}

// expandHeads is how torch.matmul sees an operand with one head where the other has a.
func (b *Builder) expandHeads(x TensorID, a int64) TensorID {
	s := b.tensor(x).Shape
	return b.expand(b.castLow(x), s.D[0], a, s.D[2], s.D[3])
}
