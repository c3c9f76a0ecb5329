package class

import (
	"math"
	"strconv"

	"ckptplan/internal/document"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var bloom = Class{
	Arch: "bloom", Own: []string{"activation"}, Heads: []string{"BloomForCausalLM"}, Eager: true,
	Spec: spec.Spec{
		L: 2, H: 64, Heads: 8, Vocab: 250880, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_tanh", Positions: "alibi",
		Bias: allBias, Tied: true,
	},
	Keys: Concat([]hfKey{
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
	Forward: Forward.bloom,
	Linears: []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	Targets: []string{"query_key_value"},
	Derive:  bloomConfig,
	parts: parts{
		"attn": module("self_attention"), "mlp": module("mlp"), "core": core("self_attention"), "norm1": fan("input_layernorm", "self_attention", "query_key_value"),
		"norm2": fan("post_attention_layernorm", "mlp", "dense_h_to_4h"), "act": fan("mlp.gelu_impl", "mlp", "dense_4h_to_h"),
	},
	tuple: true,
}

// bloom is BloomForCausalLM, whose attention is its own (baddbmm onto alibi) and whose GELU is an autograd function.
// Source: transformers/models/bloom/modeling_bloom.py.
func (b Forward) bloom() {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n, seq))

	b.Begin("embedding", graph.None)
	table := b.Weight("transformer.word_embeddings.weight", int64(s.Vocab), h)
	embedded := b.InputRequiresGrad(b.Embedding(table, ids))
	x := b.Norm(embedded, "transformer.word_embeddings_layernorm", h)
	ones := b.Plain("aten.ones", dtype.F32, graph.Shape(n, seq))
	alibi := b.alibi(ones, dtype.F32, b.Tensor(x).DType)
	mask := b.paddedCausalMask(ones)

	weights := graph.TensorID(graph.None)
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		var w graph.TensorID
		x, w = b.bloomLayer("transformer.h."+strconv.Itoa(i)+".", x, mask, alibi)
		b.Keep(weights) // the tuple that the layer before returned
		weights = w
	}

	b.Begin("head", graph.None)
	y := b.Norm(x, "transformer.ln_f", h)
	b.Keep(x, embedded, ones, mask, alibi, weights)
	b.LmHead(y, table, "lm_head", labels)
}

func (b Forward) bloomLayer(p string, x, mask, alibi graph.TensorID) (out, weights graph.TensorID) {
	h := int64(b.Spec.H)
	first := b.Next()
	residual := func(x, y graph.TensorID) graph.TensorID {
		if b.Spec.NormedResidual {
			return y
		}
		return x
	}
	y := b.Norm(x, p+"input_layernorm", h)
	from := residual(x, y)
	a := b.bloomAttention(p+"self_attention.", first, y, from, mask, alibi)
	norm2 := b.Next()
	z := b.Norm(a, p+"post_attention_layernorm", h)
	b.Keep(y, from) // until the locals are set again
	y = z
	out = b.bloomMLP(p+"mlp.", norm2, y, residual(a, y))
	b.Keep(x, a, y)
	weights = b.Weights
	b.EndLayer(first)
	return out, weights
}

func (b Forward) bloomAttention(p string, norm graph.OpID, x, residual, mask, alibi graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	fused := b.Project(p, "query_key_value", x, h, 3*h, s.Bias.QKV)
	b.Span("norm1", norm)
	qkv := b.Reshape(fused, n, seq, a, 3, d)
	var parts [3]graph.TensorID
	for i := range parts {
		parts[i] = b.Transpose(b.Pick(qkv, 3, i), 1, 2)
	}
	q := b.Reshape(parts[0], n*a, seq, d)
	k := b.Transpose(b.Reshape(parts[1], n*a, seq, d), 1, 2)
	v := b.Reshape(parts[2], n*a, seq, d)

	scores := b.baddbmm(alibi, q, k, 1/math.Sqrt(float64(d)))
	masked := b.Add(b.Reshape(scores, n, a, seq, seq), mask)
	soft := b.To(b.SoftmaxIn(masked, dtype.F32), b.Tensor(q).DType)
	probs := b.Dropout(soft, s.Dropout.Attention)
	b.Keep(soft)
	b.Weights = probs
	pl, vl := b.CastLow(b.Reshape(probs, n*a, seq, seq)), b.CastLow(v)
	o := b.Bmm(pl, vl)
	b.Keep(pl, vl)
	o = b.Reshape(b.Transpose(b.Reshape(o, n, a, seq, d), 1, 2), n, seq, h)
	out := b.dropoutAdd(b.Project(p, "dense", o, h, h, s.Bias.Out), residual, s.Dropout.Residual)
	b.Keep(x, fused, q, k, v, scores, masked, probs, o)
	b.Span("attn", first)
	return out
}

// baddbmm is c + α·a·b, in autocast's 16-bit list. Backward multiplies by α unless it is 1.
// Source: torch/csrc/autograd/FunctionsManual.cpp, maybe_multiply.
func (b Forward) baddbmm(c, x, y graph.TensorID, alpha float64) graph.TensorID {
	lc, lx, ly := b.CastLow(c), b.CastLow(x), b.CastLow(y)
	sx, sy, dt := b.Tensor(lx).Shape, b.Tensor(ly).Shape, b.Tensor(lx).DType
	kind := graph.OpBAddBMM
	if alpha == 1 {
		kind = graph.OpBMMAdd
	}
	b.Emit(kind, graph.Attr{}, lc, lx, ly).Scalar = alpha
	return b.Fresh(dt, graph.Shape(sx.D[0], sx.D[1], sy.D[2]), graph.Dims{})
}

func (b Forward) bloomMLP(p string, norm graph.OpID, x, residual graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	up := b.Project(p, "dense_h_to_4h", x, h, f, s.Bias.MLP)
	b.Span("norm2", norm)
	act := b.Next()
	g := b.bloomGelu(up)
	down := b.Project(p, "dense_4h_to_h", g, f, h, s.Bias.MLP)
	b.Span("act", act)
	out := b.dropoutAdd(down, residual, s.Dropout.Residual)
	b.Keep(x, g)
	b.Span("mlp", first)
	return out
}

// bloomGelu is x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x))) inside an autograd function, which
// saves x alone.
func (b Forward) bloomGelu(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	plain := func(name string, ins ...graph.TensorID) graph.TensorID {
		return b.Plain(name, v.DType, v.Shape, ins...)
	}
	half := plain("aten.mul", x)
	scaled := plain("aten.mul", x)
	square := plain("aten.mul", plain("aten.mul", x), x)
	inner := plain("aten.mul", scaled, plain("aten.add", square))
	one := plain("aten.add", plain("aten.tanh", inner))
	b.Emit(graph.OpBloomGelu, graph.Attr{}, x, half, one)
	return b.Fresh(v.DType, v.Shape, graph.Dims{})
}

// bloomConfig: products in slices are those of a checkpoint that was trained in several parts.
func bloomConfig(c *Config, _ *spec.Spec) {
	parts := c.Get("pretraining_tp")
	if v := c.Get("slow_but_exact"); v != nil && v.Value == "true" && parts != nil && !SameScalar(parts, "1") {
		c.At(v, "bloom with slow_but_exact: true and pretraining_tp: %s is not modelled: only false is", document.Shown(parts))
	}
}
