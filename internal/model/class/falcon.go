package class

import (
	"strconv"

	"ckptplan/internal/document"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var falcon = Class{
	OwnLinear: true,
	Arch:      "falcon", Heads: []string{"FalconForCausalLM"},
	Modules: []string{"self_attention.", "mlp.", "post_attention_layernorm.", ""},
	Spec: spec.Spec{
		L: 32, H: 4544, Heads: 71, KVHeads: 1, Vocab: 65024, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu",
		Positions: "rotary", Rotary: 1, Bias: spec.Bias{Norm: true}, Tied: true, ParallelResidual: true,
	},
	Keys: Concat([]hfKey{{"n_embed", "H"}}, sizeKeys[:4], sizeKeys[6:], tiedKey, []hfKey{
		{"ffn_hidden_size", "ffn"},
		{"activation", "activation"},
		{"bias", "bias.qkv bias.out bias.mlp"},
		{"parallel_attn", "parallel_residual"},
		{"new_decoder_architecture", "new_decoder"},
		{"attention_dropout", "dropout.attention"},
		{"hidden_dropout", "dropout.residual"},
	}),
	varies:   []string{"kv_heads", "positions", "shared_norm"},
	Forward:  Forward.falcon,
	Linears:  []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	Targets:  []string{"query_key_value"},
	Derive:   falconConfig,
	encode:   falconToConfig,
	Defaults: falconDefaults,
	Problems: falconProblems,
	parts: parts{
		"attn": module("self_attention"), "mlp": module("mlp"), "core": {Kind: "kernel", At: []string{"self_attention"}},
		"norm1": fan("input_layernorm", "self_attention", "query_key_value"), "act": fan("mlp.act", "mlp", "dense_4h_to_h"),
	},
	tuple: true,
}

// falcon is FalconForCausalLM: 7B (one key/value head, parallel), 40B (the new decoder architecture: groups of heads,
// two norms in parallel; Falcon 2 has one) and RW (alibi, sequential). Its attention sublayer calls no attention function by name, so a
// layer has no core to wrap. Source: transformers/models/falcon/modeling_falcon.py.
func (b Forward) falcon() {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	b.LinearLayer = b.matmulLinear
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n, seq))
	invFreq := b.InverseFrequencies()

	b.Begin("embedding", graph.None)
	table := b.Weight("transformer.word_embeddings.weight", int64(s.Vocab), h)
	x := b.InputRequiresGrad(b.Embedding(table, ids))
	embedded := x
	ones, alibi := graph.TensorID(graph.None), graph.TensorID(graph.None)
	if s.Positions == "alibi" {
		ones = b.Plain("aten.ones", dtype.I64, graph.Shape(n, seq))
		alibi = b.alibi(ones, dtype.BF16, b.ActDType())
	}
	pos := b.Plain("aten.add", dtype.I64, graph.Shape(1, seq), b.Plain("aten.arange", dtype.I64, graph.Shape(seq)))
	mask := b.falconMask(pos, alibi)
	cos, sin := b.RotaryTable(invFreq, pos, b.RotaryDim(), b.Tensor(x).DType)

	weights := graph.TensorID(graph.None)
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		var w graph.TensorID
		x, w = b.falconLayer("transformer.h."+strconv.Itoa(i)+".", x, pos, cos, sin, mask, alibi)
		b.Keep(weights) // the tuple that the layer before returned
		weights = w
	}

	b.Begin("head", graph.None)
	y := b.Norm(x, "transformer.ln_f", h)
	b.Keep(x, embedded, pos, cos, sin, mask, ones, alibi, weights)
	b.LmHead(y, table, "lm_head", labels)
}

// matmulLinear is x @ w.T, and + bias as an op of its own; autocast casts the transposed weight for each use.
func (b Forward) matmulLinear(x, w, bias graph.TensorID) graph.TensorID {
	wt := b.Transpose(w, 0, 1)
	lx, lw := b.CastLow(x), b.CastLow(wt)
	s := b.Tensor(lx).Shape
	out := s.With(-1, b.Tensor(lw).Shape.D[1])
	o := b.MatmulRows(lx, lw, s.Count()/s.At(-1))
	o = b.View(graph.OpUnsafeView, graph.Attr{}, o, out, out.Contiguous())
	b.Keep(lx, lw)
	if bias < 0 {
		return o
	}
	sum := b.Add(o, bias)
	b.Keep(o)
	return sum
}

// alibi is one slope a head times the tokens' positions, which are counted in the padding mask: [B·a, 1, S], made in dt
// and cast to the type of the hidden states.
func (b Forward) alibi(ones graph.TensorID, dt, to dtype.DType) graph.TensorID {
	n, a, s := int64(b.Spec.B), int64(b.Spec.Heads), int64(b.Spec.S)
	count := b.Tensor(ones).DType
	at := b.Plain("aten.mul", count, graph.Shape(n, 1, s), b.Plain("aten.cumsum", count, graph.Shape(n, s), ones))
	out := b.To(b.Plain("aten.mul", dt, graph.Shape(n*a, 1, s), at), to)
	b.Keep(ones, at)
	return out
}

// falconMask is boolean for SDPA, additive for eager attention; with alibi it is additive and holds alibi too, a head.
func (b Forward) falconMask(positions, alibi graph.TensorID) graph.TensorID {
	if b.Spec.Attention == "flash2" {
		return graph.None
	}
	n, a, s := int64(b.Spec.B), int64(b.Spec.Heads), int64(b.Spec.S)
	all := b.Plain("aten.le", dtype.Bool, graph.Shape(s, s), positions)
	ok := b.Plain("aten.bitwise_and", dtype.Bool, graph.Shape(s, s), b.Plain("aten.bitwise_and", dtype.Bool, graph.Shape(s, s), all))
	ok = b.Expand(b.Reshape(ok, 1, 1, s, s), n, 1, s, s)
	if alibi < 0 && b.Spec.Attention != "eager" {
		return ok
	}
	mask := b.Plain("aten.where", b.ActDType(), graph.Shape(n, 1, s, s), ok)
	if alibi < 0 {
		return mask
	}
	bias := b.Plain("aten.div", b.ActDType(), graph.Shape(n, a, 1, s), alibi)
	hidden := b.Plain("aten.lt", dtype.Bool, graph.Shape(n, 1, s, s), mask)
	both := b.Plain("aten.masked_fill", b.ActDType(), graph.Shape(n, a, s, s), bias, hidden)
	b.Keep(mask)
	return both
}

func (b Forward) falconLayer(p string, x, pos, cos, sin, mask, alibi graph.TensorID) (out, weights graph.TensorID) {
	s := b.Spec
	h := int64(s.H)
	first := b.Next()
	residual := x
	var y, z graph.TensorID
	if s.NewDecoder && !s.SharedNorm {
		y = b.Norm(x, p+"ln_attn", h)
		z = b.Norm(x, p+"ln_mlp", h)
	} else {
		y = b.Norm(x, p+"input_layernorm", h)
		z = y
	}
	parallel := s.NewDecoder || s.ParallelResidual
	a := b.falconAttention(p+"self_attention.", first, y, pos, cos, sin, mask, alibi)
	norm2 := graph.OpID(graph.None)
	if !parallel {
		residual = b.dropoutAdd(a, x, s.Dropout.Attention)
		norm2 = b.Next()
		z = b.Norm(residual, p+"post_attention_layernorm", h)
	}
	m := b.Mlp(p+"mlp.", "dense_h_to_4h", "dense_4h_to_h", norm2, z)
	if parallel {
		m = b.AddInPlace(m, a)
	}
	out = b.dropoutAdd(m, residual, s.Dropout.Residual)
	b.Keep(x, y, z, a, m, residual)
	weights = b.Weights
	b.EndLayer(first)
	return out, weights
}

// dropoutAdd is residual + dropout(x).
func (b Forward) dropoutAdd(x, residual graph.TensorID, p float64) graph.TensorID {
	d := b.Dropout(x, p)
	out := b.Add(residual, d)
	b.Keep(x, residual, d)
	return out
}

// falconHeads gives q [B, a, S, D] and k and v, which have one head where queries share one, else as many as q.
func (b Forward) falconHeads(p string, x graph.TensorID) (fused, q, k, v graph.TensorID) {
	s := b.Spec
	n, seq, h, a, kv, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.KVHeads), int64(s.HeadDim)
	fused = b.Project(p, "query_key_value", x, h, (a+2*kv)*d, s.Bias.QKV)
	switch {
	case s.NewDecoder:
		g := a / kv
		qkv := b.Reshape(fused, n, seq, kv, g+2, d)
		q = b.Slice(qkv, 3, 0, g)
		k0, v0 := b.indexed(qkv, 3), b.indexed(qkv, 3)
		q = b.Reshape(q, n, seq, a, d)
		k = b.Reshape(b.Expand(k0, n, seq, kv, g, d), n, seq, a, d)
		v = b.Reshape(b.Expand(v0, n, seq, kv, g, d), n, seq, a, d)
		b.Keep(k0, v0)
		kv = a
	case kv == 1: // multi_query
		qkv := b.Reshape(fused, n, seq, a+2, d)
		q = b.Slice(qkv, 2, 0, a)
		k, v = b.indexed(qkv, 2), b.indexed(qkv, 2)
	default:
		qkv := b.Reshape(fused, n, seq, a, 3, d)
		q, k, v = b.Pick(qkv, 3, 0), b.Pick(qkv, 3, 1), b.Pick(qkv, 3, 2)
	}
	q = b.Reshape(b.Transpose(q, 1, 2), n, a, seq, d)
	k = b.Reshape(b.Transpose(k, 1, 2), n, kv, seq, d)
	v = b.Reshape(b.Transpose(v, 1, 2), n, kv, seq, d)
	return fused, q, k, v
}

// indexed is x[..., [i], …]: one index of dimension i, copied by a list of indices.
func (b Forward) indexed(x graph.TensorID, i int) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpIndex, graph.Attr{}, x)
	return b.Fresh(v.DType, v.Shape.With(i, 1), graph.Dims{})
}

func (b Forward) falconAttention(p string, norm graph.OpID, x, pos, cos, sin, mask, alibi graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	fused, q, k, v := b.falconHeads(p, x)
	if !s.NewDecoder {
		b.Span("norm1", norm)
	}
	for _, t := range []graph.TensorID{pos, cos, sin, alibi} {
		b.Argument(t)
	}
	if alibi < 0 {
		q0, k0 := q, k
		q = b.Rotate(q0, cos, sin)
		k = b.Rotate(k0, cos, sin)
		b.Keep(q0, k0)
	}
	var o graph.TensorID
	var held []graph.TensorID
	switch {
	case s.Attention != "eager":
		core := build.Attention{Mask: mask, Groups: 1}
		if alibi >= 0 { // the rotary form drops no attention weights
			core.Dropout = s.Dropout.Attention
		}
		start := b.Next()
		o = b.DotProduct(q, k, v, core)
		b.Span("core", start)
	case alibi < 0:
		o = b.falconEager(q, k, v, mask, b.Tensor(x).DType)
	default:
		o, held = b.falconAlibi(q, k, v, mask, alibi, b.Tensor(x).DType)
	}
	o = b.Reshape(b.Transpose(b.Reshape(o, n, a, seq, d), 1, 2), n, seq, h)
	out := b.Project(p, "dense", o, h, h, s.Bias.Out)
	b.Keep(x, fused, q, k, v, o, b.Weights)
	b.Keep(held...)
	b.Span("attn", first)
	return out
}

// falconEager is softmax((q·kᵀ)/√d + mask, dtype)·v, without dropout.
func (b Forward) falconEager(q, k, v, mask graph.TensorID, dt dtype.DType) graph.TensorID {
	a := b.Tensor(q).Shape.D[1]
	scores := b.inPlace(graph.OpDivScalar, b.Matmul(q, b.ExpandHeads(b.Transpose(k, 2, 3), a)))
	sum := b.Add(scores, mask)
	probs := b.SoftmaxIn(sum, dt)
	b.Keep(scores, sum)
	b.Weights = probs
	return b.Matmul(probs, b.ExpandHeads(v, a))
}

// falconAlibi adds alibi in fp32 before the scale, and drops out. It gives its locals too.
func (b Forward) falconAlibi(q, k, v, mask, alibi graph.TensorID, dt dtype.DType) (graph.TensorID, []graph.TensorID) {
	s := b.Spec
	a := b.Tensor(q).Shape.D[1]
	product := b.Matmul(q, b.ExpandHeads(b.Transpose(k, 2, 3), a))
	scores := b.To(product, dtype.F32)
	logits := b.inPlace(graph.OpMulScalar, b.Add(scores, b.Reshape(alibi, int64(s.B), a, 1, int64(s.S))))
	sum := b.Add(logits, mask)
	soft := b.SoftmaxIn(sum, dt)
	b.Keep(sum)
	probs := b.Dropout(soft, s.Dropout.Attention)
	b.Keep(soft)
	b.Weights = probs
	return b.Matmul(probs, b.ExpandHeads(v, a)), []graph.TensorID{product, scores, logits}
}

// inPlace is an elementwise op that writes over its input and saves nothing.
func (b Forward) inPlace(k graph.Kind, x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(k, graph.Attr{}, x)
	return b.Output(v)
}

// falconConfig: the 7B block has one key/value head with multi_query, else one a query head; num_kv_heads counts in the new
// decoder architecture only. Positions are rotary unless alibi is set.
func falconConfig(c *Config, s *spec.Spec) {
	if v := c.Get("alibi"); v != nil && v.Value == "true" {
		s.Positions = "alibi"
		c.Spec["positions"] = v
	}
	if v := c.Get("num_ln_in_parallel_attn"); v != nil {
		switch {
		case SameScalar(v, "1") && s.NewDecoder:
			s.SharedNorm = true
			c.Spec["shared_norm"] = v
		case SameScalar(v, "1") || SameScalar(v, "2") && s.NewDecoder:
		case s.NewDecoder:
			c.At(v, "falcon with num_ln_in_parallel_attn: %s is not modelled: only 1 and 2 are", document.Shown(v))
		default:
			c.At(v, "falcon with num_ln_in_parallel_attn: %s is not modelled: without new_decoder_architecture only 1 is", document.Shown(v))
		}
	}
	if s.NewDecoder {
		s.KVHeads = s.Heads
		if v := c.Get("num_kv_heads"); v != nil {
			c.Spec["kv_heads"] = v
			c.Value(s, spec.FieldOf("kv_heads"), v)
		}
		return
	}
	s.KVHeads = 1
	if v := c.Get("multi_query"); v != nil && v.Value == "false" {
		if s.Heads == 1 { // kv_heads 1 means multi_query, which takes keys and values out of the projection by copies
			c.At(v, "falcon with multi_query: false is not modelled for one attention head")
		}
		s.KVHeads = s.Heads
		c.Spec["kv_heads"] = v
		if n := c.Get("num_kv_heads"); n != nil && !SameScalar(n, strconv.Itoa(s.Heads)) {
			c.At(n, "falcon with multi_query: false and num_kv_heads: %s is no model: without new_decoder_architecture the class splits its projection into %d heads", document.Shown(n), s.Heads)
		}
	}
}

// falconToConfig is falconConfig's inverse.
func falconToConfig(s *spec.Spec, config map[string]any) {
	config["alibi"], config["multi_query"], config["num_kv_heads"] = s.Positions == "alibi", s.KVHeads == 1, s.KVHeads
	if s.SharedNorm {
		config["num_ln_in_parallel_attn"] = 1
	}
}

// falconDefaults: one key head (multi_query), but for the new decoder architecture.
func falconDefaults(s *spec.Spec, given func(string) bool) {
	if !given("kv_heads") && !s.NewDecoder {
		s.KVHeads = 1
	}
}

func falconProblems(s *spec.Spec, add func(key, format string, args ...any)) {
	if !s.NewDecoder && s.KVHeads != 1 && s.KVHeads != s.Heads {
		add("kv_heads", "kv_heads %d: without new_decoder, Falcon has 1 or as many as heads", s.KVHeads)
	}
	if s.NewDecoder && !s.ParallelResidual {
		add("parallel_residual", "falcon: the new decoder architecture is parallel: otherwise the class has no norm for its MLP")
	}
}
