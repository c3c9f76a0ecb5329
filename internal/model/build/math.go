package build

import (
	"math"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// mathAttention is _scaled_dot_product_attention_math, SDPA without a fused kernel. 16-bit inputs are raised to fp32
// first, q and k are scaled by √scale each, and autocast is off inside. The locals of its C++ frame live until it
// returns. On CUDA the mask is added in place and dropout is one kernel; under a tracer on the meta device neither is.
// Source: aten/src/ATen/native/transformers/attention.cpp.
func (b *Builder) mathAttention(q, k, v, mask graph.TensorID, a Attention) graph.TensorID {
	amp := b.Amp
	b.Amp = false
	low := b.Tensor(q).DType
	if mask >= 0 && b.Tensor(mask).DType == dtype.Bool {
		mask = b.Plain("aten.where", low, b.Tensor(mask).Shape, mask)
	}
	if low.Low() {
		q, k, v = b.To(q, dtype.F32), b.To(k, dtype.F32), b.To(v, dtype.F32)
	}
	s, sk := b.Tensor(q).Shape, b.Tensor(k).Shape.D[2]
	root := math.Sqrt(a.scale(b.Tensor(q)))
	qs := b.WithScalar(b.MulScalar(q), root)
	if mask < 0 && a.Causal {
		ones := b.Plain("aten.ones", dtype.Bool, graph.Shape(s.D[2], sk))
		tril := b.Plain("aten.tril", dtype.Bool, graph.Shape(s.D[2], sk), ones)
		mask = b.Plain("aten.where", dtype.F32, graph.Shape(s.D[2], sk), tril)
	}
	kr, vr := k, v
	if a.Groups > 1 { // enable_gqa
		groups := s.D[1] / b.Tensor(k).Shape.D[1]
		kr, vr = b.interleave(k, groups), b.interleave(v, groups)
	}
	ks := b.WithScalar(b.MulScalar(b.Transpose(kr, 2, 3)), root)
	scores := b.bmm4(qs, b.ExpandHeads(ks, s.D[1]))
	b.Keep(ks)
	if mask >= 0 {
		scores = b.AddInPlace(scores, mask)
	}
	w := b.safeSoftmax(scores)
	b.Keep(scores)
	w = b.Dropout(w, a.Dropout)
	weights := b.To(w, low) // the op's second result
	o := b.To(b.bmm4(w, b.ExpandHeads(vr, s.D[1])), low)
	b.Keep(q, k, v, qs, kr, vr, w, weights, mask)
	b.Amp = amp
	return o
}

// interleave is x.repeat_interleave(n, 1) for x [B, kv, S, D], which copies even where a view would do.
func (b *Builder) interleave(x graph.TensorID, n int64) graph.TensorID {
	if n == 1 {
		return x
	}
	s := b.Tensor(x).Shape
	e := b.clone(b.Expand(b.Unsqueeze(x, 2), s.D[0], s.D[1], n, s.D[2], s.D[3]))
	return b.Reshape(e, s.D[0], s.D[1]*n, s.D[2], s.D[3])
}

// safeSoftmax is _safe_softmax: rows that are −∞ throughout give zeros, which a scalar on the device holds.
func (b *Builder) safeSoftmax(x graph.TensorID) graph.TensorID {
	w := b.Softmax(x, b.Tensor(x).DType)
	s := b.Tensor(x).Shape
	masked := b.Plain("aten.isneginf", dtype.Bool, s, x)
	rows := b.Plain("aten.all", dtype.Bool, s.With(-1, 1), masked)
	zero := b.Plain("aten.scalar_tensor", b.Tensor(w).DType, graph.Shape())
	b.Keep(masked, rows, zero, x)
	return w
}

// ExpandHeads is how torch.matmul sees an operand with one head where the other has a.
func (b *Builder) ExpandHeads(x graph.TensorID, a int64) graph.TensorID {
	s := b.Tensor(x).Shape
	return b.Expand(b.CastLow(x), s.D[0], a, s.D[2], s.D[3])
}
