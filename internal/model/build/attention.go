package build

import (
	"cmp"
	"math"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// Attention holds what one attention core needs besides q, k and v.
type Attention struct {
	Mask    graph.TensorID // additive float mask or boolean mask, or None
	Dropout float64
	Causal  bool
	Groups  int64   // query heads a key head
	Factor  float64 // of the scores; 0: 1/√D
	// flavour of the eager path, where classes differ
	Fp32Softmax bool            // softmax(dtype=float32).to(dtype) instead of a plain softmax
	PlainCast   bool            // a plain softmax is cast to the value's dtype (GPT-2)
	KeepLayout  bool            // the output is only transposed, not made contiguous (GPT-2)
	Sinks       *graph.TensorID // a score for each head that no token gets, or nil (gpt-oss; eager only)
	Softcap     bool            // scores pass tanh(x/c)*c
}

// Core runs softmax(q·kᵀ)·v for q [B, a, S, D], k and v [B, kv, S, D] and gives the context [B, S, a, D]. What is given
// are the position ids that decoders hand down to the attention function by keyword.
func (b *Builder) Core(q, k, v graph.TensorID, a Attention, given ...graph.TensorID) graph.TensorID {
	first := b.Next()
	for _, x := range given {
		b.Argument(x)
	}
	var o graph.TensorID
	switch b.Spec.Attention {
	case "eager":
		o = b.eager(q, k, v, a)
	default:
		o = b.sdpa(q, k, v, a)
		o = b.Contiguous(b.Transpose(o, 1, 2))
	}
	b.Keep(q, k, v)
	b.Span("core", first)
	return o
}

// repeatKV gives k and v as many heads as q: expand and reshape, which copies.
func (b *Builder) repeatKV(x graph.TensorID, n int64) graph.TensorID {
	if n == 1 {
		return x
	}
	s := b.Tensor(x).Shape
	e := b.Expand(b.Unsqueeze(x, 2), s.D[0], s.D[1], n, s.D[2], s.D[3])
	return b.Reshape(e, s.D[0], s.D[1]*n, s.D[2], s.D[3])
}

// eager is Hugging Face's eager_attention_forward. The attention weights are returned with the output, and the layer
// holds them in a local (`hidden_states, _ = self.self_attn(…)`) until it returns: see endLayer.
func (b *Builder) eager(q, k, v graph.TensorID, a Attention) graph.TensorID {
	kr, vr := b.repeatKV(k, a.Groups), b.repeatKV(v, a.Groups)
	w := b.WithScalar(b.MulScalar(b.Matmul(q, b.Transpose(kr, 2, 3))), a.scale(b.Tensor(q)))
	if a.Softcap {
		w = b.WithScalar(b.MulScalar(b.Unary(graph.OpTanh, b.WithScalar(b.Unary(graph.OpDivScalar, w), AttnSoftcap))), AttnSoftcap)
	}
	if a.Mask >= 0 {
		w = b.Add(w, a.Mask)
	}
	scores := w
	held := graph.TensorID(graph.None)
	if a.Sinks != nil {
		w, held = b.sinkSoftmax(w, *a.Sinks)
	} else if a.Fp32Softmax {
		w = b.To(b.SoftmaxIn(w, dtype.F32), b.Tensor(q).DType)
	} else {
		w = b.SoftmaxAuto(w)
	}
	b.Keep(scores)
	if a.PlainCast {
		w = b.To(w, b.Tensor(vr).DType) // a statement of its own
	}
	probs := w
	w = b.Dropout(w, a.Dropout)
	if a.Sinks != nil {
		w = b.To(w, b.Tensor(vr).DType)
		b.Keep(scores)
	}
	o := b.Transpose(b.Matmul(w, vr), 1, 2)
	if !a.KeepLayout {
		o = b.Contiguous(o)
	}
	b.Keep(kr, vr, w)
	if a.Sinks != nil {
		b.Keep(probs, held)
	}
	b.Weights = w
	return o
}

// sinkSoftmax is softmax over the scores and a sink [a] beside them, whose share is dropped; shifted is what the caller's frame holds:
//
//	x = cat([scores, sinks], -1); x = x - x.max(-1, keepdim=True).values; return softmax(x, -1)[..., :-1]
func (b *Builder) sinkSoftmax(scores, sinks graph.TensorID) (w, shifted graph.TensorID) {
	s := b.Tensor(scores).Shape
	both := b.Cat(-1, scores, b.Expand(b.Reshape(sinks, 1, s.D[1], 1, 1), s.D[0], s.D[1], s.D[2], 1))
	v := *b.Tensor(both)
	b.Emit(graph.OpMax, graph.Attr{}, both)
	most := b.Fresh(v.DType, v.Shape.With(-1, 1), graph.Dims{})
	b.Fresh(dtype.I64, v.Shape.With(-1, 1), graph.Dims{})
	shifted = b.Elementwise(graph.OpSub, v.DType, both, most)
	w = b.Slice(b.Softmax(shifted, v.DType), -1, 0, s.At(-1))
	return w, shifted
}

// SoftmaxIn is softmax(x, dtype=dt): a cast before the kernel, except for fp16 → fp32, which CUDA's kernel fuses.
func (b *Builder) SoftmaxIn(x graph.TensorID, dt dtype.DType) graph.TensorID {
	if b.Tensor(x).DType == dtype.F16 && dt == dtype.F32 {
		return b.Softmax(x, dt)
	}
	return b.Softmax(b.To(x, dt), dt)
}

// SoftmaxAuto is softmax(x) without a dtype; CUDA's autocast gives the result in fp32.
func (b *Builder) SoftmaxAuto(x graph.TensorID) graph.TensorID {
	if b.Amp && !b.CPU {
		return b.SoftmaxIn(x, dtype.F32)
	}
	return b.Softmax(x, b.Tensor(x).DType)
}

// sdpa is F.scaled_dot_product_attention of Hugging Face's sdpa_attention_forward: heads grouped unless there is a
// mask, and the kernel that CUDA's dispatcher picks. The context comes back as [B, a, S, D].
func (b *Builder) sdpa(q, k, v graph.TensorID, a Attention) graph.TensorID {
	if a.Mask >= 0 {
		k, v = b.repeatKV(k, a.Groups), b.repeatKV(v, a.Groups)
	}
	o := b.DotProduct(q, k, v, a)
	b.Keep(k, v)
	return o
}

// DotProduct picks flash for 16-bit inputs without a mask and heads up to 256, else efficient, which wants heads in whole
// 16-byte pieces, else math. Both kernels refuse a key head for several query heads unless the caller says so
// (enable_gqa).
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
func (b *Builder) DotProduct(q, k, v graph.TensorID, a Attention) graph.TensorID {
	q, k, v = b.CastLow(q), b.CastLow(k), b.CastLow(v)
	mask := a.Mask
	if mask >= 0 && b.Tensor(mask).DType == dtype.F32 {
		mask = b.CastLow(mask)
	}
	d := b.Tensor(q).Shape.At(-1)
	var o graph.TensorID
	switch {
	case b.CPU && a.Dropout == 0 && b.Spec.Attention != "math":
		o = b.cpuAttention(q, k, v, mask, a)
	case b.CPU:
		o = b.mathAttention(q, k, v, mask, a)
	case b.Spec.Attention == "flash2" && b.Tensor(q).DType.Low():
		o = b.flash(q, k, v, a) // the flash-attn package: causality, windows and grouped heads are the kernel's, no mask
	case b.Spec.Attention == "math" || a.Groups == 1 && b.Tensor(k).Shape.D[1] != b.Tensor(q).Shape.D[1]:
		o = b.mathAttention(q, k, v, mask, a)
	case mask < 0 && b.Tensor(q).DType.Low() && d == b.Tensor(v).Shape.At(-1) && d <= 256:
		o = b.flash(q, k, v, a)
	case d*b.Tensor(q).DType.Size()%16 == 0 && b.Tensor(v).Shape.At(-1)*b.Tensor(v).DType.Size()%16 == 0:
		o = b.efficient(q, k, v, mask, a)
	default:
		o = b.mathAttention(q, k, v, mask, a)
	}
	b.Keep(q, k, v)
	return o
}

// flash pads heads to a multiple of 8 before the kernel and slices the result.
func (b *Builder) flash(q, k, v graph.TensorID, a Attention) graph.TensorID {
	scale := a.scale(b.Tensor(q))
	d := b.Tensor(q).Shape.At(-1)
	if pad := (8 - d%8) % 8; pad > 0 {
		q, k, v = b.pad(q, pad), b.pad(k, pad), b.pad(v, pad)
	}
	x := *b.Tensor(q)
	s := x.Shape
	op := b.Emit(graph.OpFlashAttention, graph.Attr{B: asAttr(a.Causal)}, q, k, v)
	op.Scalar, op.Drop = scale, a.Dropout
	o := b.Fresh(x.DType, s, headsLast(x.Layout))
	b.Fresh(dtype.F32, graph.Shape(s.D[0], s.D[1], s.D[2]), graph.Dims{})
	b.Fresh(dtype.U64, graph.Shape(2), graph.Dims{})
	b.Fresh(dtype.U64, graph.Dims{}, graph.Dims{})
	if d != s.At(-1) {
		return b.Slice(o, -1, 0, d)
	}
	return o
}

// efficient keeps logsumexp with its rows padded to 32; a boolean mask becomes an additive one first.
func (b *Builder) efficient(q, k, v, mask graph.TensorID, a Attention) graph.TensorID {
	x := *b.Tensor(q)
	s := x.Shape
	ins := []graph.TensorID{q, k, v}
	if mask >= 0 {
		bias := mask
		if m := *b.Tensor(mask); m.DType == dtype.Bool {
			bias = b.Plain("aten.where", x.DType, m.Shape, mask)
		}
		if rest := b.Tensor(bias).Shape.At(-1) % 16; rest != 0 {
			w := b.Tensor(bias).Shape.At(-1)
			bias = b.Slice(b.pad(bias, 16-rest), -1, 0, w)
		}
		sk := b.Tensor(k).Shape.D[2]
		ins = append(ins, b.Expand(bias, s.D[0], s.D[1], s.D[2], sk))
	}
	op := b.Emit(graph.OpEfficientAttention, graph.Attr{B: asAttr(a.Causal && mask < 0)}, ins...)
	op.Scalar, op.Drop = a.scale(b.Tensor(q)), a.Dropout
	o := b.Fresh(x.DType, s.With(-1, b.Tensor(v).Shape.At(-1)), headsLastOf(s.With(-1, b.Tensor(v).Shape.At(-1))))
	rows := (s.D[2] + 31) / 32 * 32
	b.Fresh(dtype.F32, graph.Shape(s.D[0], s.D[1], rows), graph.Dims{})
	b.Fresh(dtype.I64, graph.Dims{}, graph.Dims{})
	b.Fresh(dtype.I64, graph.Dims{}, graph.Dims{})
	return o
}

// headsLast is the layout of a kernel's output for query q [B, a, S, D]: empty_like of q seen as [B, S, a, D].
func headsLast(q *graph.Layout) graph.Dims {
	sw := &graph.Layout{Shape: q.Shape.Swap(1, 2), Stride: q.Stride.Swap(1, 2)}
	return graph.ElementwiseStrides(sw.Shape, sw).Swap(1, 2)
}

// headsLastOf is the layout of a [B, a, S, D] tensor stored as [B, S, a, D].
func headsLastOf(s graph.Dims) graph.Dims { return s.Swap(1, 2).Contiguous().Swap(1, 2) }

// scale is the factor of attention scores for query q.
func (a *Attention) scale(q *graph.Tensor) float64 { return cmp.Or(a.Factor, HeadScale(q)) }

// HeadScale is the factor of attention scores, 1/√D, for query q [B, a, S, D].
func HeadScale(q *graph.Tensor) float64 { return 1 / math.Sqrt(float64(q.Shape.At(-1))) }

func asAttr(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

func (b *Builder) pad(x graph.TensorID, n int64) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpPad, graph.Attr{}, x)
	return b.Fresh(v.DType, v.Shape.With(-1, v.Shape.At(-1)+n), graph.Dims{})
}

// CausalMask is the float mask of eager attention, [B, 1, S, S], made once a forward and held by its layers; a
// window keeps that many tokens.
func (b *Builder) CausalMask(positions graph.TensorID) graph.TensorID {
	n, s := int64(b.Spec.B), int64(b.Spec.S)
	ok := b.Plain("aten.le", dtype.Bool, graph.Shape(1, 1, s, s), positions)
	return b.Plain("aten.where", b.ActDType(), graph.Shape(n, 1, s, s), ok)
}

// ActDType is the dtype of the residual stream: autocast leaves it in the weights' fp32.
func (b *Builder) ActDType() dtype.DType { return b.Dtype }
