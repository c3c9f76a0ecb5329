package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var cohere = Class{
	Arch: "cohere", Heads: []string{"CohereForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 40, H: 8192, Heads: 64, FFN: 22528, Vocab: 256000, MaxS: 8192, Norm: "layernorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, Tied: true, ParallelResidual: true, LogitScale: true,
	},
	Keys:      Concat(sizeKeys, groupKeys, tiedKey, attnBias, []hfKey{{"use_qk_norm", "qk_norm"}}),
	Forward:   Forward.cohere,
	Linears:   gatedLinears,
	Targets:   qvTargets,
	Constants: build.Constants{RotaryBase: 500_000, Interleaved: true},
	parts:     attentionParts.with(parts{"mlp": module("mlp"), "act": gatedParts["act"]}),
}

// cohere is CohereForCausalLM: attention and MLP read one norm, LayerNorm without bias composed of small ops, rotary
// over neighbouring pairs in fp32, scaled logits.
// Source: transformers/models/cohere/modeling_cohere.py.
func (b Forward) cohere() {
	d := llamaClass()
	d.norm, d.heads, d.rotate, d.parallel = Forward.cohereNorm, Forward.cohereHeads, Forward.rotatePairs, true
	b.decoder(d)
}

func (b Forward) cohereNorm(x graph.TensorID, name string, h int64) graph.TensorID {
	return b.meanNorm(x, b.Weight(name+".weight", h))
}

// meanNorm is CohereLayerNorm:
//
//	x = x.to(float32); mean = x.mean(-1, keepdim=True); variance = (x - mean).pow(2).mean(-1, keepdim=True)
//	x = (x - mean) * rsqrt(variance + ε); x = weight.to(float32) * x; return x.to(dtype)
func (b Forward) meanNorm(x, w graph.TensorID) graph.TensorID {
	f := b.To(x, dtype.F32)
	mean := b.Mean(f)
	variance := b.Mean(b.WithScalar(b.Pow(b.Elementwise(graph.OpSub, dtype.F32, f, mean)), 2))
	centred := b.Elementwise(graph.OpSub, dtype.F32, f, mean)
	normed := b.Mul(centred, b.Unary(graph.OpRsqrt, b.WithScalar(b.AddScalar(variance), b.Constants.LayerNormEps)))
	b.Keep(f)
	scaled := b.Mul(b.To(w, dtype.F32), normed)
	b.Keep(normed)
	out := b.To(scaled, b.Tensor(x).DType)
	b.Keep(x, mean, variance, scaled)
	return out
}

// cohereHeads projects to q, k and v; norms of q and k have a weight for each head.
func (b Forward) cohereHeads(_ *decoder, p string, x graph.TensorID) (q, k, v graph.TensorID) {
	s := b.Spec
	heads := func(name string, count int) graph.TensorID {
		return b.toHeads(b.Project(p, name+"_proj", x, int64(s.H), int64(count*s.HeadDim), s.Bias.QKV), count)
	}
	norm := func(x graph.TensorID, name string, count int) graph.TensorID {
		y := b.meanNorm(x, b.Weight(p+name+"_norm.weight", int64(count), int64(s.HeadDim)))
		b.Keep(x)
		return y
	}
	q, k, v = heads("q", s.Heads), heads("k", s.KVHeads), heads("v", s.KVHeads)
	if s.QKNorm {
		q, k = norm(q, "q", s.Heads), norm(k, "k", s.KVHeads)
	}
	return b.Transpose(q, 1, 2), b.Transpose(k, 1, 2), b.Transpose(v, 1, 2)
}

// rotatePairs is Cohere's apply_rotary_pos_emb: q and k raised to fp32, rotated, and cast back.
func (b Forward) rotatePairs(q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID) {
	dt := b.Tensor(q).DType
	fq, fk := b.To(q, dtype.F32), b.To(k, dtype.F32)
	c, s := b.Unsqueeze(cos, 1), b.Unsqueeze(sin, 1)
	rotate := func(x graph.TensorID) graph.TensorID {
		xc := b.Mul(x, c)
		return b.Add(xc, b.Mul(b.rotateNeighbours(x), s))
	}
	rq := rotate(fq)
	rk := rotate(fk)
	outQ, outK := b.To(rq, dt), b.To(rk, dt)
	b.Keep(q, k, fq, fk, rq, rk)
	return outQ, outK
}

// rotateNeighbours is stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2).
func (b Forward) rotateNeighbours(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	even, odd := b.everyOther(x, 0), b.everyOther(x, 1)
	neg := b.Unary(graph.OpNeg, odd)
	b.Emit(graph.OpStack, graph.Attr{A: int64(v.Shape.N)}, neg, even)
	st := b.Fresh(v.DType, b.Tensor(neg).Shape.Append(2), graph.Dims{})
	b.Keep(neg)
	return b.Reshape(st, v.Shape.D[:v.Shape.N]...)
}

// everyOther is x[..., from::2].
func (b Forward) everyOther(x graph.TensorID, from int64) graph.TensorID {
	v := *b.Tensor(x)
	o := b.View(graph.OpSlice, graph.Attr{A: int64(v.Shape.N) - 1, B: from, C: 2}, x, v.Shape.With(-1, v.Shape.At(-1)/2), v.Stride.With(-1, 2*v.Stride.At(-1)))
	b.Tensor(o).Offset = v.Offset + from*v.Stride.At(-1)
	return o
}
