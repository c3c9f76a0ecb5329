package model

import "slices"

var mixtral = class{
	arch: "mixtral", heads: []string{"MixtralForCausalLM"},
	modules: attnFirst,
	spec: Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocab: 32000, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, MoE: &MoE{Experts: 8, TopK: 2, SparseStep: 1, NormTopK: true},
	},
	keys: concat(sizeKeys, groupKeys, tiedKey, slidingKeys, []hfKey{
		{"num_experts", "moe.experts"}, {"num_local_experts", "moe.experts"}, {"num_experts_per_tok", "moe.top_k"},
	}),
	only:    concat(moeOnly, []hfOnly{{"router_jitter_noise", "0"}}),
	varies:  []string{"moe.ffn"},
	forward: forward.mixtral,
	linears: attnLinears,
	targets: qvTargets,
	derive:  mixtralConfig,
	parts:   attentionParts.with(parts{"mlp": module("mlp")}),
}

// mixtral is MixtralForCausalLM; Qwen3-MoE differs by Spec: norms on q and k, dense layers, an optional renormalisation.
// Source: transformers/models/mixtral/modeling_mixtral.py and qwen3_moe, transformers/integrations/moe.py.
func (b forward) mixtral() {
	d := llamaClass()
	d.mlp = forward.moeOrDense
	b.decoder(d)
}

// denseLayer is true for a layer with a plain MLP.
func denseLayer(m *MoE, layer int) bool {
	return slices.Contains(m.DenseLayers, layer) || (layer+1)%max(1, m.SparseStep) != 0
}

func (b forward) moeOrDense(p string, norm OpID, x TensorID) TensorID {
	if denseLayer(b.spec.MoE, b.g.Blocks[b.block].Layer) {
		return b.gatedMLP(p, norm, x)
	}
	return b.moe(p, norm, x)
}

// moe is the sparse block: a router, then the experts by grouped products over the tokens sorted by expert.
func (b forward) moe(p string, norm OpID, x TensorID) TensorID {
	shape := b.tensor(x).Shape
	first := b.next()
	tokens := b.reshape(x, shape.Count()/shape.At(-1), shape.At(-1))
	logits, weights, index := b.router(p+"gate.", tokens)
	y := b.experts(p+"experts.", norm, tokens, index, weights)
	out := b.reshape(y, shape.D[:shape.N]...)
	b.keep(x, logits, weights, index)
	b.span("mlp", first)
	return out
}

// router gives the logits, and each token's TopK weights [N, k] and experts.
//
//	probs = softmax(linear(x), float32); value, index = topk(probs); value /= value.sum(-1, keepdim=True)
//
// Mixtral casts the logits before softmax and leaves the weights in fp32; Qwen3-MoE casts inside and back.
func (b forward) router(p string, x TensorID) (logits, weights, index TensorID) {
	s := b.spec
	logits = b.linear(x, b.weight(p+"weight", int64(s.MoE.Experts), int64(s.H)), None)
	cast := logits
	if s.Arch == "mixtral" {
		cast = b.to(logits, F32)
	}
	probs := b.softmaxIn(cast, F32)
	n := b.tensor(probs).Shape.D[0]
	b.emit(OpTopK, Attr{}, probs)
	weights = b.fresh(F32, Shape(n, int64(s.MoE.TopK)), Dims{})
	index = b.fresh(I64, Shape(n, int64(s.MoE.TopK)), Dims{})
	b.keep(probs)
	if s.MoE.NormTopK {
		weights = b.divideInPlace(weights, b.sumLast(weights))
	}
	if s.Arch != "mixtral" {
		weights = b.to(weights, b.tensor(logits).DType)
	}
	b.keep(probs, x)
	return logits, weights, index
}

// divideInPlace is x.div_(y): autograd keeps a copy of what x was.
func (b forward) divideInPlace(x, y TensorID) TensorID {
	v := *b.tensor(x)
	was := b.plain("aten.clone", v.DType, v.Shape, x)
	b.tensor(was).Grad = false
	b.emit(OpDivInPlace, Attr{}, x, y, was)
	return b.output(v)
}

// sumLast is x.sum(-1, keepdim=True).
func (b forward) sumLast(x TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(OpSum, Attr{}, x)
	return b.fresh(v.DType, v.Shape.With(-1, 1), Dims{})
}

// index is x[rows] for a vector of rows.
func (b forward) index(x, rows TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(OpIndex, Attr{}, x, rows)
	return b.fresh(v.DType, v.Shape.With(0, b.tensor(rows).Shape.D[0]), Dims{})
}

// maskInPlace is x.masked_fill_(mask, 0).
func (b forward) maskInPlace(x, mask TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(OpMaskedFill, Attr{}, x, mask)
	return b.output(v)
}

// groupedLinear is _grouped_mm(x, wᵀ, offsets) with the input cast to the weight's dtype: autocast does not know the op.
func (b forward) groupedLinear(x, w, offsets TensorID) TensorID {
	dt := b.tensor(w).DType
	x = b.to(x, dt)
	wt := b.transpose(w, 1, 2)
	b.emit(OpGroupedMM, Attr{}, x, wt, offsets)
	return b.fresh(dt, Shape(b.tensor(x).Shape.D[0], b.tensor(w).Shape.D[1]), Dims{})
}

// experts is grouped_mm_experts_forward: tokens sorted by expert, two grouped products, the routing weights, the order
// restored and the TopK results of each token summed.
func (b forward) experts(p string, norm OpID, x, topIndex, topWeights TensorID) TensorID {
	s := b.spec
	e, f, k := int64(s.MoE.Experts), int64(s.MoE.FFN), int64(s.MoE.TopK)
	n, h := b.tensor(x).Shape.D[0], b.tensor(x).Shape.D[1]
	pairs := Shape(n * k)
	up, down := b.weight(p+"gate_up_proj", e, 2*f, h), b.weight(p+"down_proj", e, h, f)

	weights := b.reshape(topWeights, n*k)
	ids := b.reshape(topIndex, n*k)
	b.emit(OpPlain, Attr{}, ids)
	sorted := b.fresh(I64, pairs, Dims{})
	b.g.storageOf(sorted).Name = "aten.sort"
	perm := b.fresh(I64, pairs, Dims{})
	rows := b.plain("aten.floor_divide", I64, pairs, perm)
	xs := b.index(x, rows)
	ws := b.index(weights, perm)
	ids32 := b.plain("aten._to_copy", I32, pairs, sorted)
	counts := b.plain("aten.histc", I32, Shape(e), ids32)
	offsets := b.plain("aten.cumsum", I32, Shape(e), counts)
	sentinel := b.unsqueeze(b.plain("aten.ge", Bool, pairs, sorted), 1)
	b.keep(sorted, counts)
	xs = b.maskInPlace(xs, sentinel)
	gu := b.groupedLinear(xs, up, offsets)
	if norm != None {
		b.span("norm2", norm)
	}
	act := b.next()
	half := b.split(gu, -1, f, f)
	y := b.mul(b.activation(s.Activation, half[0]), half[1])
	b.keep(gu)
	o := b.groupedLinear(y, down, offsets)
	b.keep(y)
	b.span("act", act)
	out := b.maskInPlace(b.mul(o, b.unsqueeze(ws, 1)), sentinel)
	inverse := b.plain("aten.empty_like", I64, pairs, perm)
	b.plain("aten.arange", I64, pairs, inverse, perm)
	out = b.index(out, inverse)
	sum := b.sumOver(b.reshape(out, n, k, h), 1)
	res := b.to(sum, b.tensor(x).DType)
	b.keep(xs, ws, offsets, sentinel, o, perm, sorted, ids32, counts, inverse, out, sum, weights, x)
	return res
}

// sumOver is x.sum(dim) without keeping the dimension.
func (b forward) sumOver(x TensorID, dim int) TensorID {
	v := *b.tensor(x)
	b.emit(OpSumOver, Attr{A: int64(dim)}, x)
	return b.fresh(v.DType, v.Shape.Remove(dim), Dims{})
}

func mixtralConfig(_ *config, s *Spec) { s.MoE.FFN = s.FFN }
