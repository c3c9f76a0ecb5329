package model

import "strconv"

var falcon = class{
	arch: "falcon", heads: []string{"FalconForCausalLM"},
	modules: []string{"self_attention.", "mlp.", "post_attention_layernorm.", ""},
	spec: Spec{
		L: 32, H: 4544, Heads: 71, KVHeads: 1, Vocab: 65024, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu",
		Positions: "rotary", Rotary: 1, Bias: Bias{Norm: true}, Tied: true, ParallelResidual: true,
	},
	keys: concat([]hfKey{{"n_embed", "H"}}, sizeKeys[:4], sizeKeys[6:], tiedKey, []hfKey{
		{"ffn_hidden_size", "ffn"},
		{"activation", "activation"},
		{"bias", "bias.qkv bias.out bias.mlp"},
		{"parallel_attn", "parallel_residual"},
		{"new_decoder_architecture", "new_decoder"},
		{"attention_dropout", "dropout.attention"},
		{"hidden_dropout", "dropout.residual"},
	}),
	varies:   []string{"kv_heads", "positions", "shared_norm"},
	forward:  forward.falcon,
	linears:  []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	targets:  []string{"query_key_value"},
	derive:   falconConfig,
	encode:   falconToConfig,
	defaults: falconDefaults,
	problems: falconProblems,
	parts: parts{
		"attn": module("self_attention"), "mlp": module("mlp"), "core": {Kind: "kernel", At: []string{"self_attention"}},
		"norm1": fan("input_layernorm", "self_attention", "query_key_value"), "act": fan("mlp.act", "mlp", "dense_4h_to_h"),
	},
	tuple: true,
}

// falcon is FalconForCausalLM: 7B (one key/value head, parallel), 40B (the new decoder architecture: groups of heads,
// two norms in parallel; Falcon 2 has one) and RW (alibi, sequential). Its attention sublayer calls no attention function by name, so a
// layer has no core to wrap. Source: transformers/models/falcon/modeling_falcon.py.
func (b forward) falcon() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	b.linearLayer = b.matmulLinear
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))
	invFreq := b.inverseFrequencies()

	b.begin("embedding", None)
	table := b.weight("transformer.word_embeddings.weight", int64(s.Vocab), h)
	x := b.inputRequiresGrad(b.embedding(table, ids))
	embedded := x
	ones, alibi := TensorID(None), TensorID(None)
	if s.Positions == "alibi" {
		ones = b.plain("aten.ones", I64, Shape(n, seq))
		alibi = b.alibi(ones, BF16)
	}
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	mask := b.falconMask(pos, alibi)
	cos, sin := b.rotaryTable(invFreq, pos, b.rotaryDim(), b.tensor(x).DType)

	weights := TensorID(None)
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		var w TensorID
		x, w = b.falconLayer("transformer.h."+strconv.Itoa(i)+".", x, pos, cos, sin, mask, alibi)
		b.keep(weights) // the tuple that the layer before returned
		weights = w
	}

	b.begin("head", None)
	y := b.norm(x, "transformer.ln_f", h)
	b.keep(x, embedded, pos, cos, sin, mask, ones, alibi, weights)
	b.lmHead(y, table, "lm_head", labels)
}

// matmulLinear is x @ w.T, and + bias as an op of its own; autocast casts the transposed weight for each use.
func (b forward) matmulLinear(x, w, bias TensorID) TensorID {
	wt := b.transpose(w, 0, 1)
	lx, lw := b.castLow(x), b.castLow(wt)
	s := b.tensor(lx).Shape
	out := s.With(-1, b.tensor(lw).Shape.D[1])
	o := b.matmulRows(lx, lw, s.Count()/s.At(-1))
	o = b.view(OpUnsafeView, Attr{}, o, out, out.Contiguous())
	b.keep(lx, lw)
	if bias < 0 {
		return o
	}
	sum := b.add(o, bias)
	b.keep(o)
	return sum
}

// alibi is one slope a head times the tokens' positions, which are counted in the padding mask: [B·a, 1, S], made in dt.
func (b forward) alibi(ones TensorID, dt DType) TensorID {
	n, a, s := int64(b.spec.B), int64(b.spec.Heads), int64(b.spec.S)
	count := b.tensor(ones).DType
	at := b.plain("aten.mul", count, Shape(n, 1, s), b.plain("aten.cumsum", count, Shape(n, s), ones))
	out := b.to(b.plain("aten.mul", dt, Shape(n*a, 1, s), at), b.actDType())
	b.keep(ones, at)
	return out
}

// falconMask is boolean for SDPA, additive for eager attention; with alibi it is additive and holds alibi too, a head.
func (b forward) falconMask(positions, alibi TensorID) TensorID {
	if b.spec.Attention == "flash2" {
		return None
	}
	n, a, s := int64(b.spec.B), int64(b.spec.Heads), int64(b.spec.S)
	all := b.plain("aten.le", Bool, Shape(s, s), positions)
	ok := b.plain("aten.bitwise_and", Bool, Shape(s, s), b.plain("aten.bitwise_and", Bool, Shape(s, s), all))
	ok = b.expand(b.reshape(ok, 1, 1, s, s), n, 1, s, s)
	if alibi < 0 && b.spec.Attention != "eager" {
		return ok
	}
	mask := b.plain("aten.where", b.actDType(), Shape(n, 1, s, s), ok)
	if alibi < 0 {
		return mask
	}
	bias := b.plain("aten.div", b.actDType(), Shape(n, a, 1, s), alibi)
	hidden := b.plain("aten.lt", Bool, Shape(n, 1, s, s), mask)
	both := b.plain("aten.masked_fill", b.actDType(), Shape(n, a, s, s), bias, hidden)
	b.keep(mask)
	return both
}

func (b forward) falconLayer(p string, x, pos, cos, sin, mask, alibi TensorID) (out, weights TensorID) {
	s := b.spec
	h := int64(s.H)
	first := b.next()
	residual := x
	var y, z TensorID
	if s.NewDecoder && !s.SharedNorm {
		y = b.norm(x, p+"ln_attn", h)
		z = b.norm(x, p+"ln_mlp", h)
	} else {
		y = b.norm(x, p+"input_layernorm", h)
		z = y
	}
	parallel := s.NewDecoder || s.ParallelResidual
	a := b.falconAttention(p+"self_attention.", first, y, pos, cos, sin, mask, alibi)
	norm2 := OpID(None)
	if !parallel {
		residual = b.dropoutAdd(a, x, s.Dropout.Attention)
		norm2 = b.next()
		z = b.norm(residual, p+"post_attention_layernorm", h)
	}
	m := b.mlp(p+"mlp.", "dense_h_to_4h", "dense_4h_to_h", norm2, z)
	if parallel {
		m = b.addInPlace(m, a)
	}
	out = b.dropoutAdd(m, residual, s.Dropout.Residual)
	b.keep(x, y, z, a, m, residual)
	weights = b.weights
	b.endLayer(first)
	return out, weights
}

// dropoutAdd is residual + dropout(x).
func (b forward) dropoutAdd(x, residual TensorID, p float64) TensorID {
	d := b.dropout(x, p)
	out := b.add(residual, d)
	b.keep(x, residual, d)
	return out
}

// falconHeads gives q [B, a, S, D] and k and v, which have one head where queries share one, else as many as q.
func (b forward) falconHeads(p string, x TensorID) (fused, q, k, v TensorID) {
	s := b.spec
	n, seq, h, a, kv, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.KVHeads), int64(s.HeadDim)
	fused = b.project(p, "query_key_value", x, h, (a+2*kv)*d, s.Bias.QKV)
	switch {
	case s.NewDecoder:
		g := a / kv
		qkv := b.reshape(fused, n, seq, kv, g+2, d)
		q = b.slice(qkv, 3, 0, g)
		k0, v0 := b.indexed(qkv, 3), b.indexed(qkv, 3)
		q = b.reshape(q, n, seq, a, d)
		k = b.reshape(b.expand(k0, n, seq, kv, g, d), n, seq, a, d)
		v = b.reshape(b.expand(v0, n, seq, kv, g, d), n, seq, a, d)
		b.keep(k0, v0)
		kv = a
	case kv == 1: // multi_query
		qkv := b.reshape(fused, n, seq, a+2, d)
		q = b.slice(qkv, 2, 0, a)
		k, v = b.indexed(qkv, 2), b.indexed(qkv, 2)
	default:
		qkv := b.reshape(fused, n, seq, a, 3, d)
		q, k, v = b.pick(qkv, 3, 0), b.pick(qkv, 3, 1), b.pick(qkv, 3, 2)
	}
	q = b.reshape(b.transpose(q, 1, 2), n, a, seq, d)
	k = b.reshape(b.transpose(k, 1, 2), n, kv, seq, d)
	v = b.reshape(b.transpose(v, 1, 2), n, kv, seq, d)
	return fused, q, k, v
}

// indexed is x[..., [i], …]: one index of dimension i, copied by a list of indices.
func (b forward) indexed(x TensorID, i int) TensorID {
	v := *b.tensor(x)
	b.emit(OpIndex, Attr{}, x)
	return b.fresh(v.DType, v.Shape.With(i, 1), Dims{})
}

func (b forward) falconAttention(p string, norm OpID, x, pos, cos, sin, mask, alibi TensorID) TensorID {
	s := b.spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.next()
	fused, q, k, v := b.falconHeads(p, x)
	if !s.NewDecoder {
		b.span("norm1", norm)
	}
	for _, t := range []TensorID{pos, cos, sin, alibi} {
		b.argument(t)
	}
	if alibi < 0 {
		q0, k0 := q, k
		q = b.rotate(q0, cos, sin)
		k = b.rotate(k0, cos, sin)
		b.keep(q0, k0)
	}
	var o TensorID
	var held []TensorID
	switch {
	case s.Attention != "eager":
		core := attention{mask: mask, groups: 1}
		if alibi >= 0 { // the rotary form drops no attention weights
			core.dropout = s.Dropout.Attention
		}
		start := b.next()
		o = b.dotProduct(q, k, v, core)
		b.span("core", start)
	case alibi < 0:
		o = b.falconEager(q, k, v, mask, b.tensor(x).DType)
	default:
		o, held = b.falconAlibi(q, k, v, mask, alibi, b.tensor(x).DType)
	}
	o = b.reshape(b.transpose(b.reshape(o, n, a, seq, d), 1, 2), n, seq, h)
	out := b.project(p, "dense", o, h, h, s.Bias.Out)
	b.keep(x, fused, q, k, v, o, b.weights)
	b.keep(held...)
	b.span("attn", first)
	return out
}

// falconEager is softmax((q·kᵀ)/√d + mask, dtype)·v, without dropout.
func (b forward) falconEager(q, k, v, mask TensorID, dt DType) TensorID {
	a := b.tensor(q).Shape.D[1]
	scores := b.inPlace(OpDivScalar, b.matmul(q, b.expandHeads(b.transpose(k, 2, 3), a)))
	sum := b.add(scores, mask)
	probs := b.softmaxIn(sum, dt)
	b.keep(scores, sum)
	b.weights = probs
	return b.matmul(probs, b.expandHeads(v, a))
}

// falconAlibi adds alibi in fp32 before the scale, and drops out. It gives its locals too.
func (b forward) falconAlibi(q, k, v, mask, alibi TensorID, dt DType) (TensorID, []TensorID) {
	s := b.spec
	a := b.tensor(q).Shape.D[1]
	product := b.matmul(q, b.expandHeads(b.transpose(k, 2, 3), a))
	scores := b.to(product, F32)
	logits := b.inPlace(OpMulScalar, b.add(scores, b.reshape(alibi, int64(s.B), a, 1, int64(s.S))))
	sum := b.add(logits, mask)
	soft := b.softmaxIn(sum, dt)
	b.keep(sum)
	probs := b.dropout(soft, s.Dropout.Attention)
	b.keep(soft)
	b.weights = probs
	return b.matmul(probs, b.expandHeads(v, a)), []TensorID{product, scores, logits}
}

// inPlace is an elementwise op that writes over its input and saves nothing.
func (b forward) inPlace(k Kind, x TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(k, Attr{}, x)
	return b.output(v)
}

// falconConfig: the 7B block has one key/value head with multi_query, else one a query head; num_kv_heads counts in the new
// decoder architecture only. Positions are rotary unless alibi is set.
func falconConfig(c *config, s *Spec) {
	if v := c.get("alibi"); v != nil && v.Value == "true" {
		s.Positions = "alibi"
		c.spec["positions"] = v
	}
	if v := c.get("num_ln_in_parallel_attn"); v != nil {
		switch {
		case sameScalar(v, "1") && s.NewDecoder:
			s.SharedNorm = true
			c.spec["shared_norm"] = v
		case sameScalar(v, "1") || sameScalar(v, "2") && s.NewDecoder:
		case s.NewDecoder:
			c.at(v, "falcon with num_ln_in_parallel_attn: %s is not modelled: only 1 and 2 are", shown(v))
		default:
			c.at(v, "falcon with num_ln_in_parallel_attn: %s is not modelled: without new_decoder_architecture only 1 is", shown(v))
		}
	}
	if s.NewDecoder {
		s.KVHeads = s.Heads
		if v := c.get("num_kv_heads"); v != nil {
			c.spec["kv_heads"] = v
			c.value(s, fieldOf("kv_heads"), v)
		}
		return
	}
	s.KVHeads = 1
	if v := c.get("multi_query"); v != nil && v.Value == "false" {
		if s.Heads == 1 { // kv_heads 1 means multi_query, which takes keys and values out of the projection by copies
			c.at(v, "falcon with multi_query: false is not modelled for one attention head")
		}
		s.KVHeads = s.Heads
		c.spec["kv_heads"] = v
		if n := c.get("num_kv_heads"); n != nil && !sameScalar(n, strconv.Itoa(s.Heads)) {
			c.at(n, "falcon with multi_query: false and num_kv_heads: %s is no model: without new_decoder_architecture the class splits its projection into %d heads", shown(n), s.Heads)
		}
	}
}

// falconToConfig is falconConfig's inverse.
func falconToConfig(s *Spec, config map[string]any) {
	config["alibi"], config["multi_query"], config["num_kv_heads"] = s.Positions == "alibi", s.KVHeads == 1, s.KVHeads
	if s.SharedNorm {
		config["num_ln_in_parallel_attn"] = 1
	}
}

// falconDefaults: one key head (multi_query), but for the new decoder architecture.
func falconDefaults(s *Spec, given func(string) bool) {
	if !given("kv_heads") && !s.NewDecoder {
		s.KVHeads = 1
	}
}

func falconProblems(s *Spec, add func(key, format string, args ...any)) {
	if !s.NewDecoder && s.KVHeads != 1 && s.KVHeads != s.Heads {
		add("kv_heads", "kv_heads %d: without new_decoder, Falcon has 1 or as many as heads", s.KVHeads)
	}
	if s.NewDecoder && !s.ParallelResidual {
		add("parallel_residual", "falcon: the new decoder architecture is parallel: otherwise the class has no norm for its MLP")
	}
}
