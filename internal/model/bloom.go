package model

import (
	"math"
	"strconv"
)

var bloom = class{
	arch: "bloom", own: []string{"activation"}, heads: []string{"BloomForCausalLM"}, eager: true,
	spec: Spec{
		L: 2, H: 64, Heads: 8, Vocab: 250880, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_tanh", Positions: "alibi",
		Bias: allBias, Tied: true,
	},
	keys: concat([]hfKey{
		{"num_hidden_layers", "L"},
		{"n_embed", "H"},
		{"num_attention_heads", "heads"},
		{"n_layer", "L"},
		{"hidden_size", "H"},
		{"n_head", "heads"},
		{"vocab_size", "vocab"},
		{"attention_dropout", "dropout.attention"},
		{"hidden_dropout", "dropout.residual"},
		{"seq_length", "max_positions"},
		{"apply_residual_connection_post_layernorm", "normed_residual"},
	}, tiedKey),
	forward: forward.bloom,
	linears: []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	targets: []string{"query_key_value"},
	derive:  bloomConfig,
	parts: parts{
		"attn": module("self_attention"), "mlp": module("mlp"), "core": core("self_attention"), "norm1": fan("input_layernorm", "self_attention", "query_key_value"),
		"norm2": fan("post_attention_layernorm", "mlp", "dense_h_to_4h"), "act": fan("mlp.gelu_impl", "mlp", "dense_4h_to_h"),
	},
	tuple: true,
}

// bloom is BloomForCausalLM, whose attention is its own (baddbmm onto alibi) and whose GELU is an autograd function.
// Source: transformers/models/bloom/modeling_bloom.py.
func (b forward) bloom() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))

	b.begin("embedding", None)
	table := b.weight("transformer.word_embeddings.weight", int64(s.Vocab), h)
	embedded := b.inputRequiresGrad(b.embedding(table, ids))
	x := b.norm(embedded, "transformer.word_embeddings_layernorm", h)
	ones := b.plain("aten.ones", F32, Shape(n, seq))
	alibi := b.alibi(ones, F32)
	mask := b.paddedCausalMask(ones)

	weights := TensorID(None)
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		var w TensorID
		x, w = b.bloomLayer("transformer.h."+strconv.Itoa(i)+".", x, mask, alibi)
		b.keep(weights) // the tuple that the layer before returned
		weights = w
	}

	b.begin("head", None)
	y := b.norm(x, "transformer.ln_f", h)
	b.keep(x, embedded, ones, mask, alibi, weights)
	b.lmHead(y, table, "lm_head", labels)
}

func (b forward) bloomLayer(p string, x, mask, alibi TensorID) (out, weights TensorID) {
	h := int64(b.spec.H)
	first := b.next()
	residual := func(x, y TensorID) TensorID {
		if b.spec.NormedResidual {
			return y
		}
		return x
	}
	y := b.norm(x, p+"input_layernorm", h)
	from := residual(x, y)
	a := b.bloomAttention(p+"self_attention.", first, y, from, mask, alibi)
	norm2 := b.next()
	z := b.norm(a, p+"post_attention_layernorm", h)
	b.keep(y, from) // until the locals are set again
	y = z
	out = b.bloomMLP(p+"mlp.", norm2, y, residual(a, y))
	b.keep(x, a, y)
	weights = b.weights
	b.endLayer(first)
	return out, weights
}

func (b forward) bloomAttention(p string, norm OpID, x, residual, mask, alibi TensorID) TensorID {
	s := b.spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.next()
	fused := b.project(p, "query_key_value", x, h, 3*h, s.Bias.QKV)
	b.span("norm1", norm)
	qkv := b.reshape(fused, n, seq, a, 3, d)
	var parts [3]TensorID
	for i := range parts {
		parts[i] = b.transpose(b.pick(qkv, 3, i), 1, 2)
	}
	q := b.reshape(parts[0], n*a, seq, d)
	k := b.transpose(b.reshape(parts[1], n*a, seq, d), 1, 2)
	v := b.reshape(parts[2], n*a, seq, d)

	scores := b.baddbmm(alibi, q, k, 1/math.Sqrt(float64(d)))
	masked := b.add(b.reshape(scores, n, a, seq, seq), mask)
	soft := b.to(b.softmaxIn(masked, F32), b.tensor(q).DType)
	probs := b.dropout(soft, s.Dropout.Attention)
	b.keep(soft)
	b.weights = probs
	pl, vl := b.castLow(b.reshape(probs, n*a, seq, seq)), b.castLow(v)
	o := b.bmm(pl, vl)
	b.keep(pl, vl)
	o = b.reshape(b.transpose(b.reshape(o, n, a, seq, d), 1, 2), n, seq, h)
	out := b.dropoutAdd(b.project(p, "dense", o, h, h, s.Bias.Out), residual, s.Dropout.Residual)
	b.keep(x, fused, q, k, v, scores, masked, probs, o)
	b.span("attn", first)
	return out
}

// baddbmm is c + α·a·b, in autocast's 16-bit list. Backward multiplies by α unless it is 1.
// Source: torch/csrc/autograd/FunctionsManual.cpp, maybe_multiply.
func (b forward) baddbmm(c, x, y TensorID, alpha float64) TensorID {
	lc, lx, ly := b.castLow(c), b.castLow(x), b.castLow(y)
	sx, sy, dt := b.tensor(lx).Shape, b.tensor(ly).Shape, b.tensor(lx).DType
	kind := OpBAddBMM
	if alpha == 1 {
		kind = OpBMMAdd
	}
	b.emit(kind, Attr{}, lc, lx, ly).Scalar = alpha
	return b.fresh(dt, Shape(sx.D[0], sx.D[1], sy.D[2]), Dims{})
}

func (b forward) bloomMLP(p string, norm OpID, x, residual TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	up := b.project(p, "dense_h_to_4h", x, h, f, s.Bias.MLP)
	b.span("norm2", norm)
	act := b.next()
	g := b.bloomGelu(up)
	down := b.project(p, "dense_4h_to_h", g, f, h, s.Bias.MLP)
	b.span("act", act)
	out := b.dropoutAdd(down, residual, s.Dropout.Residual)
	b.keep(x, g)
	b.span("mlp", first)
	return out
}

// bloomGelu is x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x))) inside an autograd function, which
// saves x alone.
func (b forward) bloomGelu(x TensorID) TensorID {
	v := *b.tensor(x)
	plain := func(name string, ins ...TensorID) TensorID { return b.plain(name, v.DType, v.Shape, ins...) }
	half := plain("aten.mul", x)
	scaled := plain("aten.mul", x)
	square := plain("aten.mul", plain("aten.mul", x), x)
	inner := plain("aten.mul", scaled, plain("aten.add", square))
	one := plain("aten.add", plain("aten.tanh", inner))
	b.emit(OpBloomGelu, Attr{}, x, half, one)
	return b.fresh(v.DType, v.Shape, Dims{})
}

// bloomConfig: products in slices are those of a checkpoint that was trained in several parts.
func bloomConfig(c *config, _ *Spec) {
	parts := c.get("pretraining_tp")
	if v := c.get("slow_but_exact"); v != nil && v.Value == "true" && parts != nil && !sameScalar(parts, "1") {
		c.at(v, "bloom with slow_but_exact: true and pretraining_tp: %s is not modelled: only false is", shown(parts))
	}
}
