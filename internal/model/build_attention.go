package model

import (
	"cmp"
	"math"
)

// attention holds what one attention core needs besides q, k and v.
type attention struct {
	mask    TensorID // additive float mask or boolean mask, or None
	dropout float64
	causal  bool
	groups  int64   // query heads a key head
	factor  float64 // of the scores; 0: 1/√D
	// flavour of the eager path, where classes differ
	fp32Softmax bool // softmax(dtype=float32).to(dtype) instead of a plain softmax
	plainCast   bool // a plain softmax is cast to the value's dtype (GPT-2)
	keepLayout  bool // the output is only transposed, not made contiguous (GPT-2)
	softcap     bool // scores pass tanh(x/c)*c
}

// core runs softmax(q·kᵀ)·v for q [B, a, S, D], k and v [B, kv, S, D] and gives the context [B, S, a, D]. What is given
// are the position ids that decoders hand down to the attention function by keyword.
func (b *Builder) core(q, k, v TensorID, a attention, given ...TensorID) TensorID {
	first := b.next()
	for _, x := range given {
		b.argument(x)
	}
	var o TensorID
	switch b.spec.Attention {
	case "eager":
		o = b.eager(q, k, v, a)
	default:
		o = b.sdpa(q, k, v, a)
		o = b.contiguous(b.transpose(o, 1, 2))
	}
	b.keep(q, k, v)
	b.span("core", first)
	return o
}

// repeatKV gives k and v as many heads as q: expand and reshape, which copies.
func (b *Builder) repeatKV(x TensorID, n int64) TensorID {
	if n == 1 {
		return x
	}
	s := b.tensor(x).Shape
	e := b.expand(b.unsqueeze(x, 2), s.D[0], s.D[1], n, s.D[2], s.D[3])
	return b.reshape(e, s.D[0], s.D[1]*n, s.D[2], s.D[3])
}

// eager is Hugging Face's eager_attention_forward. The attention weights are returned with the output, and the layer
// holds them in a local (`hidden_states, _ = self.self_attn(…)`) until it returns: see endLayer.
func (b *Builder) eager(q, k, v TensorID, a attention) TensorID {
	kr, vr := b.repeatKV(k, a.groups), b.repeatKV(v, a.groups)
	w := b.withScalar(b.mulScalar(b.matmul(q, b.transpose(kr, 2, 3))), a.scale(b.tensor(q)))
	if a.softcap {
		w = b.withScalar(b.mulScalar(b.unary(OpTanh, b.withScalar(b.unary(OpDivScalar, w), attnSoftcap))), attnSoftcap)
	}
	if a.mask >= 0 {
		w = b.add(w, a.mask)
	}
	scores := w
	if a.fp32Softmax {
		w = b.to(b.softmaxIn(w, F32), b.tensor(q).DType)
	} else {
		w = b.softmaxAuto(w)
	}
	b.keep(scores)
	if a.plainCast {
		w = b.to(w, b.tensor(vr).DType) // a statement of its own
	}
	w = b.dropout(w, a.dropout)
	o := b.transpose(b.matmul(w, vr), 1, 2)
	if !a.keepLayout {
		o = b.contiguous(o)
	}
	b.keep(kr, vr, w)
	b.weights = w
	return o
}

// softmaxIn is softmax(x, dtype=dt): a cast before the kernel, except for fp16 → fp32, which CUDA's kernel fuses.
func (b *Builder) softmaxIn(x TensorID, dt DType) TensorID {
	if b.tensor(x).DType == F16 && dt == F32 {
		return b.softmax(x, dt)
	}
	return b.softmax(b.to(x, dt), dt)
}

// softmaxAuto is softmax(x) without a dtype; CUDA's autocast gives the result in fp32.
func (b *Builder) softmaxAuto(x TensorID) TensorID {
	if b.amp && !b.CPU {
		return b.softmaxIn(x, F32)
	}
	return b.softmax(x, b.tensor(x).DType)
}

// sdpa is F.scaled_dot_product_attention of Hugging Face's sdpa_attention_forward: heads grouped unless there is a
// mask, and the kernel that CUDA's dispatcher picks. The context comes back as [B, a, S, D].
func (b *Builder) sdpa(q, k, v TensorID, a attention) TensorID {
	if a.mask >= 0 {
		k, v = b.repeatKV(k, a.groups), b.repeatKV(v, a.groups)
	}
	o := b.dotProduct(q, k, v, a)
	b.keep(k, v)
	return o
}

// dotProduct picks flash for 16-bit inputs without a mask and heads up to 256, else efficient, which wants heads in whole
// 16-byte pieces, else math. Both kernels refuse a key head for several query heads unless the caller says so
// (enable_gqa).
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
func (b *Builder) dotProduct(q, k, v TensorID, a attention) TensorID {
	q, k, v = b.castLow(q), b.castLow(k), b.castLow(v)
	mask := a.mask
	if mask >= 0 && b.tensor(mask).DType == F32 {
		mask = b.castLow(mask)
	}
	d := b.tensor(q).Shape.At(-1)
	var o TensorID
	switch {
	case b.CPU && a.dropout == 0 && b.spec.Attention != "math":
		o = b.cpuAttention(q, k, v, mask, a)
	case b.CPU:
		o = b.mathAttention(q, k, v, mask, a)
	case b.spec.Attention == "flash2" && b.tensor(q).DType.Low():
		o = b.flash(q, k, v, a) // the flash-attn package: causality, windows and grouped heads are the kernel's, no mask
	case b.spec.Attention == "math" || a.groups == 1 && b.tensor(k).Shape.D[1] != b.tensor(q).Shape.D[1]:
		o = b.mathAttention(q, k, v, mask, a)
	case mask < 0 && b.tensor(q).DType.Low() && d == b.tensor(v).Shape.At(-1) && d <= 256:
		o = b.flash(q, k, v, a)
	case d*b.tensor(q).DType.Size()%16 == 0 && b.tensor(v).Shape.At(-1)*b.tensor(v).DType.Size()%16 == 0:
		o = b.efficient(q, k, v, mask, a)
	default:
		o = b.mathAttention(q, k, v, mask, a)
	}
	b.keep(q, k, v)
	return o
}

// flash pads heads to a multiple of 8 before the kernel and slices the result.
func (b *Builder) flash(q, k, v TensorID, a attention) TensorID {
	scale := a.scale(b.tensor(q))
	d := b.tensor(q).Shape.At(-1)
	if pad := (8 - d%8) % 8; pad > 0 {
		q, k, v = b.pad(q, pad), b.pad(k, pad), b.pad(v, pad)
	}
	x := *b.tensor(q)
	s := x.Shape
	op := b.emit(OpFlashAttention, Attr{B: asAttr(a.causal)}, q, k, v)
	op.Scalar, op.Drop = scale, a.dropout
	o := b.fresh(x.DType, s, headsLast(x.Layout))
	b.fresh(F32, Shape(s.D[0], s.D[1], s.D[2]), Dims{})
	b.fresh(U64, Shape(2), Dims{})
	b.fresh(U64, Dims{}, Dims{})
	if d != s.At(-1) {
		return b.slice(o, -1, 0, d)
	}
	return o
}

// efficient keeps logsumexp with its rows padded to 32; a boolean mask becomes an additive one first.
func (b *Builder) efficient(q, k, v, mask TensorID, a attention) TensorID {
	x := *b.tensor(q)
	s := x.Shape
	ins := []TensorID{q, k, v}
	if mask >= 0 {
		bias := mask
		if m := *b.tensor(mask); m.DType == Bool {
			bias = b.plain("aten.where", x.DType, m.Shape, mask)
		}
		if rest := b.tensor(bias).Shape.At(-1) % 16; rest != 0 {
			w := b.tensor(bias).Shape.At(-1)
			bias = b.slice(b.pad(bias, 16-rest), -1, 0, w)
		}
		sk := b.tensor(k).Shape.D[2]
		ins = append(ins, b.expand(bias, s.D[0], s.D[1], s.D[2], sk))
	}
	op := b.emit(OpEfficientAttention, Attr{B: asAttr(a.causal && mask < 0)}, ins...)
	op.Scalar, op.Drop = a.scale(b.tensor(q)), a.dropout
	o := b.fresh(x.DType, s.With(-1, b.tensor(v).Shape.At(-1)), headsLastOf(s.With(-1, b.tensor(v).Shape.At(-1))))
	rows := (s.D[2] + 31) / 32 * 32
	b.fresh(F32, Shape(s.D[0], s.D[1], rows), Dims{})
	b.fresh(I64, Dims{}, Dims{})
	b.fresh(I64, Dims{}, Dims{})
	return o
}

// headsLast is the layout of a kernel's output for query q [B, a, S, D]: empty_like of q seen as [B, S, a, D].
func headsLast(q *Layout) Dims {
	sw := &Layout{q.Shape.Swap(1, 2), q.Stride.Swap(1, 2)}
	return ElementwiseStrides(sw.Shape, sw).Swap(1, 2)
}

// headsLastOf is the layout of a [B, a, S, D] tensor stored as [B, S, a, D].
func headsLastOf(s Dims) Dims { return s.Swap(1, 2).Contiguous().Swap(1, 2) }

// scale is the factor of attention scores for query q.
func (a *attention) scale(q *Tensor) float64 { return cmp.Or(a.factor, headScale(q)) }

// headScale is the factor of attention scores, 1/√D, for query q [B, a, S, D].
func headScale(q *Tensor) float64 { return 1 / math.Sqrt(float64(q.Shape.At(-1))) }

func asAttr(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

func (b *Builder) pad(x TensorID, n int64) TensorID {
	v := *b.tensor(x)
	b.emit(OpPad, Attr{}, x)
	return b.fresh(v.DType, v.Shape.With(-1, v.Shape.At(-1)+n), Dims{})
}

// causalMask is the float mask of eager attention, [B, 1, S, S], made once a forward and held by its layers; a
// window keeps that many tokens.
func (b *Builder) causalMask(positions TensorID) TensorID {
	n, s := int64(b.spec.B), int64(b.spec.S)
	ok := b.plain("aten.le", Bool, Shape(1, 1, s, s), positions)
	return b.plain("aten.where", b.actDType(), Shape(n, 1, s, s), ok)
}

// actDType is the dtype of the residual stream: autocast leaves it in the weights' fp32.
func (b *Builder) actDType() DType { return b.dtype }
