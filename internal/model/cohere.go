package model

var cohere = class{
	arch: "cohere", heads: []string{"CohereForCausalLM"},
	modules: attnFirst,
	spec: Spec{
		L: 40, H: 8192, Heads: 64, FFN: 22528, Vocab: 256000, MaxS: 8192, Norm: "layernorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, Tied: true, ParallelResidual: true, LogitScale: true,
	},
	keys:      concat(sizeKeys, groupKeys, tiedKey, attnBias, []hfKey{{"use_qk_norm", "qk_norm"}}),
	forward:   forward.cohere,
	linears:   gatedLinears,
	targets:   qvTargets,
	constants: Constants{RotaryBase: 500_000, Interleaved: true},
	parts:     attentionParts.with(parts{"mlp": module("mlp"), "act": gatedParts["act"]}),
}

// cohere is CohereForCausalLM: attention and MLP read one norm, LayerNorm without bias composed of small ops, rotary
// over neighbouring pairs in fp32, scaled logits.
// Source: transformers/models/cohere/modeling_cohere.py.
func (b forward) cohere() {
	d := llamaClass()
	d.norm, d.heads, d.rotate, d.parallel = forward.cohereNorm, forward.cohereHeads, forward.rotatePairs, true
	b.decoder(d)
}

func (b forward) cohereNorm(x TensorID, name string, h int64) TensorID {
	return b.meanNorm(x, b.weight(name+".weight", h))
}

// meanNorm is CohereLayerNorm:
//
//	x = x.to(float32); mean = x.mean(-1, keepdim=True); variance = (x - mean).pow(2).mean(-1, keepdim=True)
//	x = (x - mean) * rsqrt(variance + ε); x = weight.to(float32) * x; return x.to(dtype)
func (b forward) meanNorm(x, w TensorID) TensorID {
	f := b.to(x, F32)
	mean := b.mean(f)
	variance := b.mean(b.withScalar(b.pow(b.elementwise(OpSub, F32, f, mean)), 2))
	centred := b.elementwise(OpSub, F32, f, mean)
	normed := b.mul(centred, b.unary(OpRsqrt, b.withScalar(b.addScalar(variance), b.constants.LayerNormEps)))
	b.keep(f)
	scaled := b.mul(b.to(w, F32), normed)
	b.keep(normed)
	out := b.to(scaled, b.tensor(x).DType)
	b.keep(x, mean, variance, scaled)
	return out
}

// cohereHeads projects to q, k and v; norms of q and k have a weight for each head.
func (b forward) cohereHeads(_ *decoder, p string, x TensorID) (q, k, v TensorID) {
	s := b.spec
	heads := func(name string, count int) TensorID {
		return b.toHeads(b.project(p, name+"_proj", x, int64(s.H), int64(count*s.HeadDim), s.Bias.QKV), count)
	}
	norm := func(x TensorID, name string, count int) TensorID {
		y := b.meanNorm(x, b.weight(p+name+"_norm.weight", int64(count), int64(s.HeadDim)))
		b.keep(x)
		return y
	}
	q, k, v = heads("q", s.Heads), heads("k", s.KVHeads), heads("v", s.KVHeads)
	if s.QKNorm {
		q, k = norm(q, "q", s.Heads), norm(k, "k", s.KVHeads)
	}
	return b.transpose(q, 1, 2), b.transpose(k, 1, 2), b.transpose(v, 1, 2)
}

// rotatePairs is Cohere's apply_rotary_pos_emb: q and k raised to fp32, rotated, and cast back.
func (b forward) rotatePairs(q, k, cos, sin TensorID) (TensorID, TensorID) {
	dt := b.tensor(q).DType
	fq, fk := b.to(q, F32), b.to(k, F32)
	c, s := b.unsqueeze(cos, 1), b.unsqueeze(sin, 1)
	rotate := func(x TensorID) TensorID {
		xc := b.mul(x, c)
		return b.add(xc, b.mul(b.rotateNeighbours(x), s))
	}
	rq := rotate(fq)
	rk := rotate(fk)
	outQ, outK := b.to(rq, dt), b.to(rk, dt)
	b.keep(q, k, fq, fk, rq, rk)
	return outQ, outK
}

// rotateNeighbours is stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2).
func (b forward) rotateNeighbours(x TensorID) TensorID {
	v := *b.tensor(x)
	d := v.Shape.At(-1)
	every := func(from int64) TensorID {
		o := b.view(OpSlice, Attr{A: int64(v.Shape.N) - 1, B: from, C: 2}, x, v.Shape.With(-1, d/2), v.Stride.With(-1, 2*v.Stride.At(-1)))
		b.tensor(o).Offset = v.Offset + from*v.Stride.At(-1)
		return o
	}
	even, odd := every(0), every(1)
	neg := b.unary(OpNeg, odd)
	b.emit(OpStack, Attr{A: int64(v.Shape.N)}, neg, even)
	st := b.fresh(v.DType, b.tensor(neg).Shape.Append(2), Dims{})
	b.keep(neg)
	return b.reshape(st, v.Shape.D[:v.Shape.N]...)
}
