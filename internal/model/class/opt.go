package class

import (
	"math"
	"strconv"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var opt = Class{
	Arch: "opt", Heads: []string{"OPTForCausalLM"},
	Spec: spec.Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 50272, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "relu",
		Positions: "learned", Bias: allBias, Dropout: spec.Dropout{Residual: .1}, Tied: true, FinalNorm: true,
	},
	Keys: Concat(sizeKeys, tiedKey, []hfKey{
		{"ffn_dim", "ffn"},
		{"activation_function", "activation"},
		{"dropout", "dropout.residual"},
		{"attention_dropout", "dropout.attention"},
		{"word_embed_proj_dim", "embedding_dim"},
		{"enable_bias", "bias.qkv bias.out bias.mlp"},
	}),
	Only:     []hfOnly{{"layerdrop", "0"}},
	varies:   []string{"norm_order", "final_norm", "plain_norm"},
	Forward:  Forward.opt,
	Linears:  []string{"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"},
	Targets:  qvTargets,
	Derive:   optConfig,
	encode:   optToConfig,
	Problems: optProblems,
	parts: parts{
		"attn": module("self_attn"), "mlp": row("fc1", "activation_fn", "fc2"), "core": core("self_attn"), "norm1": fan("self_attn_layer_norm", "self_attn", qkv...),
		"norm2": fan("final_layer_norm", "", "fc1"), "act": fan("activation_fn", "", "fc2"),
	},
}

// opt is OPTForCausalLM: layer norms before the sublayers, or after them (350m, whose token table is narrower than the
// layers too). Source: transformers/models/opt/modeling_opt.py.
func (b Forward) opt() {
	s := b.Spec
	n, seq, h, e := int64(s.B), int64(s.S), int64(s.H), int64(s.H)
	if s.EmbedDim > 0 {
		e = int64(s.EmbedDim)
	}
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n, seq))

	b.Begin("embedding", graph.None)
	p := "model.decoder."
	table := b.Weight(p+"embed_tokens.weight", int64(s.Vocab), e)
	places := b.Weight(p+"embed_positions.weight", int64(s.MaxS)+2, h)
	var projectOut, projectIn graph.TensorID
	if e != h {
		projectOut, projectIn = b.Weight(p+"project_out.weight", e, h), b.Weight(p+"project_in.weight", h, e)
	}
	tok := b.InputRequiresGrad(b.Embedding(table, ids))
	ones := b.Plain("aten.ones", dtype.F32, graph.Shape(n, seq))
	pos := b.Plain("aten._to_copy", dtype.I64, graph.Shape(n, seq), b.Plain("aten.cumsum", dtype.F32, graph.Shape(n, seq), ones))
	mask := graph.TensorID(graph.None)
	if s.Attention == "eager" {
		mask = b.paddedCausalMask(pos)
	}
	place := b.Embedding(places, b.WithScalar(b.Plain("aten.add", dtype.I64, graph.Shape(n, seq), pos), 1))
	if e != h {
		narrow := tok
		tok = b.Linear(narrow, projectIn, graph.None)
		b.Keep(narrow)
	}
	x := b.Add(tok, place)

	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.optLayer(p+"layers."+strconv.Itoa(i)+".", x, pos, mask)
	}

	b.Begin("head", graph.None)
	if s.FinalNorm {
		x = b.Norm(x, p+"final_layer_norm", h)
	}
	if e != h {
		wide := x
		x = b.Linear(wide, projectOut, graph.None)
		b.Keep(wide)
	}
	b.LmHead(x, table, "lm_head", labels, tok, place, ones, pos, mask)
}

// paddedCausalMask is the causal mask where a padding mask was given, of ones only: the two are combined a sequence.
func (b Forward) paddedCausalMask(positions graph.TensorID) graph.TensorID {
	n, s := int64(b.Spec.B), int64(b.Spec.S)
	causal := b.Plain("aten.le", dtype.Bool, graph.Shape(1, 1, s, s), positions)
	both := b.Plain("aten.bitwise_and", dtype.Bool, graph.Shape(n, 1, s, s), causal)
	return b.Plain("aten.where", b.ActDType(), graph.Shape(n, 1, s, s), both)
}

func (b Forward) optLayer(p string, x, pos, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, f := int64(s.B), int64(s.S), int64(s.H), int64(s.FFN)
	pre := s.NormOrder == "pre"
	first := b.Next()
	b.Argument(pos)
	norm1 := b.Next()
	y := x
	if pre {
		y = b.Norm(x, p+"self_attn_layer_norm", h)
	}
	a := b.optAttention(p+"self_attn.", norm1, y, pos, mask)
	a = b.Dropout(a, s.Dropout.Residual)
	y = b.Add(x, a)
	b.Keep(a)
	if !pre {
		y = b.Norm(y, p+"self_attn_layer_norm", h)
	}

	y = b.Reshape(y, n*seq, h)
	residual := y
	norm2 := b.Next()
	if pre {
		y = b.Norm(y, p+"final_layer_norm", h)
	}
	mlp := b.Next()
	u := b.Project(p, "fc1", y, h, f, s.Bias.MLP)
	if pre {
		b.Span("norm2", norm2)
	}
	act := b.Next()
	g := b.Activation(s.Activation, u)
	m := b.Project(p, "fc2", g, f, h, s.Bias.MLP)
	b.Keep(g)
	b.Span("act", act)
	b.Span("mlp", mlp)
	m = b.Dropout(m, s.Dropout.Residual)
	out := b.Reshape(b.Add(residual, m), n, seq, h)
	b.Keep(m)
	if !pre {
		out = b.Norm(out, p+"final_layer_norm", h)
	}
	b.Keep(x, residual)
	b.EndLayer(first)
	return out
}

func (b Forward) optAttention(p string, norm graph.OpID, x, pos, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	q := b.WithScalar(b.MulScalar(b.Project(p, "q_proj", x, h, h, s.Bias.QKV)), 1/math.Sqrt(float64(d)))
	q = b.Transpose(b.Reshape(q, n, seq, a, d), 1, 2)
	k := b.Heads(p, "k_proj", x, h, a, d, s.Bias.QKV)
	v := b.Heads(p, "v_proj", x, h, a, d, s.Bias.QKV)
	if s.NormOrder == "pre" {
		b.Span("norm1", norm)
	}
	// the query is scaled, and the scores are not
	o := b.Core(q, k, v, build.Attention{Mask: mask, Dropout: s.Dropout.Attention, Causal: true, Groups: 1, Factor: 1, Fp32Softmax: true}, pos)
	o = b.Contiguous(b.Reshape(o, n, seq, h))
	out := b.Project(p, "out_proj", o, h, h, s.Bias.Out)
	b.Keep(x, q, k, v, o)
	b.Span("attn", first)
	return out
}

// optConfig: the norms of the 350m follow the sublayers, and none follows the last layer.
func optConfig(c *Config, s *spec.Spec) {
	if c.when("do_layer_norm_before", "false", "norm_order") {
		s.NormOrder, s.FinalNorm = "post", false
	}
	if c.when("_remove_final_layer_norm", "true", "final_norm") {
		s.FinalNorm = false
	}
	s.PlainNorm = c.when("layer_norm_elementwise_affine", "false", "plain_norm")
}

// optToConfig is optConfig's inverse.
func optToConfig(s *spec.Spec, config map[string]any) {
	config["do_layer_norm_before"], config["_remove_final_layer_norm"] = s.NormOrder == "pre", !s.FinalNorm
	config["layer_norm_elementwise_affine"] = !s.PlainNorm
}

func optProblems(s *spec.Spec, add func(key, format string, args ...any)) {
	if s.NormOrder == "post" && s.FinalNorm {
		add("final_norm", "final_norm: OPT has none where norms follow the sublayers (norm_order post)")
	}
}
