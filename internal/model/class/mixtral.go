package class

import (
	"slices"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var mixtral = classifying(Class{
	Arch: "mixtral", Heads: []string{"MixtralForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocab: 32000, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, MoE: &spec.MoE{Experts: 8, TopK: 2, SparseStep: 1, NormTopK: true},
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, slidingKeys, mixtralKeys),
	Only:    Concat(moeOnly, []hfOnly{{"router_jitter_noise", "0"}}),
	varies:  []string{"moe.ffn"},
	Forward: Forward.mixtral,
	Linears: attnLinears,
	Targets: qvTargets,
	Derive:  mixtralConfig,
	parts:   attentionParts.with(parts{"mlp": module("mlp")}),
}, forSequences, forTokens)

// mixtralKeys are the keys of experts in every layer.
var mixtralKeys = []hfKey{{"num_experts", "moe.experts"}, {"num_local_experts", "moe.experts"}, {"num_experts_per_tok", "moe.top_k"}}

// mixtral is MixtralForCausalLM; Qwen3-MoE differs by Spec: norms on q and k, dense layers, an optional renormalisation.
// Source: transformers/models/mixtral/modeling_mixtral.py and qwen3_moe, transformers/integrations/moe.py.
func (b Forward) mixtral() {
	d := llamaClass()
	d.mlp = Forward.moeOrDense
	b.decoder(d)
}

// denseLayer is true for a layer with a plain MLP.
func denseLayer(m *spec.MoE, layer int) bool {
	return slices.Contains(m.DenseLayers, layer) || (layer+1)%max(1, m.SparseStep) != 0
}

func (b Forward) moeOrDense(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	if denseLayer(b.Spec.MoE, b.G.Blocks[b.Block].Layer) {
		return b.gatedMLP(p, norm, x)
	}
	return b.moe(p, norm, x)
}

// moe is the sparse block: a router, then the experts by grouped products over the tokens sorted by expert.
func (b Forward) moe(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	shape := b.Tensor(x).Shape
	first := b.Next()
	tokens := b.Reshape(x, shape.Count()/shape.At(-1), shape.At(-1))
	logits, weights, index := b.router(p+"gate.", tokens)
	y := b.experts(p+"experts.", norm, tokens, index, weights, expertKind{})
	out := b.Reshape(y, shape.D[:shape.N]...)
	b.Keep(x, logits, weights, index)
	b.Span("mlp", first)
	return out
}

// router gives the logits, and each token's TopK weights [N, k] and experts.
//
//	probs = softmax(linear(x), float32); value, index = topk(probs); value /= value.sum(-1, keepdim=True)
//
// Mixtral casts the logits before softmax and leaves the weights in fp32; Qwen3-MoE casts inside and back.
func (b Forward) router(p string, x graph.TensorID) (logits, weights, index graph.TensorID) {
	s := b.Spec
	logits = b.Linear(x, b.Weight(p+"weight", int64(s.MoE.Experts), int64(s.H)), graph.None)
	cast := logits
	if s.Arch == "mixtral" {
		cast = b.To(logits, dtype.F32)
	}
	probs := b.SoftmaxIn(cast, dtype.F32)
	n := b.Tensor(probs).Shape.D[0]
	b.Emit(graph.OpTopK, graph.Attr{}, probs)
	weights = b.Fresh(dtype.F32, graph.Shape(n, int64(s.MoE.TopK)), graph.Dims{})
	index = b.Fresh(dtype.I64, graph.Shape(n, int64(s.MoE.TopK)), graph.Dims{})
	b.Keep(probs)
	if s.MoE.NormTopK {
		weights = b.divideInPlace(weights, b.sumLast(weights))
	}
	if s.Arch != "mixtral" {
		weights = b.To(weights, b.Tensor(logits).DType)
	}
	b.Keep(probs, x)
	return logits, weights, index
}

// divideInPlace is x.div_(y): autograd keeps a copy of what x was.
func (b Forward) divideInPlace(x, y graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	was := b.Plain("aten.clone", v.DType, v.Shape, x)
	b.Tensor(was).Grad = false
	b.Emit(graph.OpDivInPlace, graph.Attr{}, x, y, was)
	return b.Output(v)
}

// sumLast is x.sum(-1, keepdim=True).
func (b Forward) sumLast(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpSum, graph.Attr{}, x)
	return b.Fresh(v.DType, v.Shape.With(-1, 1), graph.Dims{})
}

// index is x[rows] for a vector of rows.
func (b Forward) index(x, rows graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpIndex, graph.Attr{}, x, rows)
	return b.Fresh(v.DType, v.Shape.With(0, b.Tensor(rows).Shape.D[0]), graph.Dims{})
}

// maskInPlace is x.masked_fill_(mask, 0).
func (b Forward) maskInPlace(x, mask graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpMaskedFill, graph.Attr{}, x, mask)
	return b.Output(v)
}

// groupedLinear is _grouped_mm(x, w, offsets), w transposed unless it stands so, with the input cast to the weight's dtype:
// autocast does not know the op.
func (b Forward) groupedLinear(x, w, offsets graph.TensorID, kind expertKind, bias graph.TensorID) graph.TensorID {
	dt := b.Tensor(w).DType
	x = b.To(x, dt)
	if !kind.biased {
		w = b.Transpose(w, 1, 2)
	}
	b.Emit(graph.OpGroupedMM, graph.Attr{}, x, w, offsets)
	out := b.Fresh(dt, graph.Shape(b.Tensor(x).Shape.D[0], b.Tensor(w).Shape.D[2]), graph.Dims{})
	if bias >= 0 {
		return b.AddInPlace(out, bias)
	}
	return out
}

// expertWeight is the weight of all experts, from in to out, and the bias or None.
func (b Forward) expertWeight(name string, e, in, out int64, kind expertKind) (w, bias graph.TensorID) {
	if kind.biased {
		return b.Weight(name, e, in, out), b.Weight(name+"_bias", e, out)
	}
	return b.Weight(name, e, out, in), graph.None
}

// biases are the rows of bias for each pair of token and expert.
func (b Forward) biases(bias, experts graph.TensorID) graph.TensorID {
	if bias < 0 {
		return bias
	}
	return b.index(bias, experts)
}

// gateExperts is act(gate) * up of the halves of both, unless the class has its own way.
func (b Forward) gateExperts(both graph.TensorID, kind expertKind) graph.TensorID {
	if kind.gate != nil {
		return kind.gate(b, both)
	}
	f := b.Tensor(both).Shape.At(-1) / 2
	half := b.Split(both, -1, f, f)
	return b.Mul(b.Activation(b.Spec.Activation, half[0]), half[1])
}

// expertKind is what differs between classes' experts.
type expertKind struct {
	biased bool // each expert adds biases, and its weights stand as [E, in, out]
	gate   func(b Forward, both graph.TensorID) graph.TensorID
}

// experts is grouped_mm_experts_forward: tokens sorted by expert, two grouped products, the routing weights, the order
// restored and the TopK results of each token summed.
func (b Forward) experts(p string, norm graph.OpID, x, topIndex, topWeights graph.TensorID, kind expertKind) graph.TensorID {
	s := b.Spec
	e, f, k := int64(s.MoE.Experts), int64(s.MoE.FFN), int64(s.MoE.TopK)
	n, h := b.Tensor(x).Shape.D[0], b.Tensor(x).Shape.D[1]
	pairs := graph.Shape(n * k)
	up, upBias := b.expertWeight(p+"gate_up_proj", e, h, 2*f, kind)
	down, downBias := b.expertWeight(p+"down_proj", e, f, h, kind)

	weights := b.Reshape(topWeights, n*k)
	ids := b.Reshape(topIndex, n*k)
	b.Emit(graph.OpPlain, graph.Attr{}, ids)
	sorted := b.Fresh(dtype.I64, pairs, graph.Dims{})
	b.G.StorageOf(sorted).Name = "aten.sort"
	perm := b.Fresh(dtype.I64, pairs, graph.Dims{})
	rows := b.Plain("aten.floor_divide", dtype.I64, pairs, perm)
	xs := b.index(x, rows)
	ws := b.index(weights, perm)
	ids32 := b.Plain("aten._to_copy", dtype.I32, pairs, sorted)
	counts := b.Plain("aten.histc", dtype.I32, graph.Shape(e), ids32)
	offsets := b.Plain("aten.cumsum", dtype.I32, graph.Shape(e), counts)
	sentinel := b.Unsqueeze(b.Plain("aten.ge", dtype.Bool, pairs, sorted), 1)
	b.Keep(sorted, counts)
	added := b.biases(upBias, sorted)
	xs = b.maskInPlace(xs, sentinel)
	gu := b.groupedLinear(xs, up, offsets, kind, added)
	if norm != graph.None {
		b.Span("norm2", norm)
	}
	act := b.Next()
	y := b.gateExperts(gu, kind)
	b.Keep(gu, added)
	added = b.biases(downBias, sorted)
	o := b.groupedLinear(y, down, offsets, kind, added)
	b.Keep(y)
	b.Span("act", act)
	out := b.maskInPlace(b.Mul(o, b.Unsqueeze(ws, 1)), sentinel)
	inverse := b.Plain("aten.empty_like", dtype.I64, pairs, perm)
	b.Plain("aten.arange", dtype.I64, pairs, inverse, perm)
	out = b.index(out, inverse)
	sum := b.sumOver(b.Reshape(out, n, k, h), 1)
	res := b.To(sum, b.Tensor(x).DType)
	b.Keep(xs, ws, offsets, sentinel, o, perm, sorted, ids32, counts, inverse, out, sum, weights, x, added)
	return res
}

// sumOver is x.sum(dim) without keeping the dimension.
func (b Forward) sumOver(x graph.TensorID, dim int) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpSumOver, graph.Attr{A: int64(dim)}, x)
	return b.Fresh(v.DType, v.Shape.Remove(dim), graph.Dims{})
}

func mixtralConfig(_ *Config, s *spec.Spec) { s.MoE.FFN = s.FFN }
