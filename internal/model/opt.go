package model

import (
	"math"
	"strconv"
)

var opt = class{
	arch: "opt", heads: []string{"OPTForCausalLM"},
	spec: Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 50272, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "relu",
		Positions: "learned", Bias: allBias, Dropout: Dropout{Residual: .1}, Tied: true, FinalNorm: true,
	},
	keys: concat(sizeKeys, tiedKey, []hfKey{
		{"ffn_dim", "ffn"},
		{"activation_function", "activation"},
		{"dropout", "dropout.residual"},
		{"attention_dropout", "dropout.attention"},
		{"word_embed_proj_dim", "embedding_dim"},
		{"enable_bias", "bias.qkv bias.out bias.mlp"},
	}),
	only:     []hfOnly{{"layerdrop", "0"}},
	varies:   []string{"norm_order", "final_norm", "plain_norm"},
	forward:  forward.opt,
	linears:  []string{"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"},
	targets:  qvTargets,
	derive:   optConfig,
	encode:   optToConfig,
	problems: optProblems,
	parts: parts{
		"attn": module("self_attn"), "mlp": row("fc1", "activation_fn", "fc2"), "core": core("self_attn"), "norm1": fan("self_attn_layer_norm", "self_attn", qkv...),
		"norm2": fan("final_layer_norm", "", "fc1"), "act": fan("activation_fn", "", "fc2"),
	},
}

// opt is OPTForCausalLM: layer norms before the sublayers, or after them (350m, whose token table is narrower than the
// layers too). Source: transformers/models/opt/modeling_opt.py.
func (b forward) opt() {
	s := b.spec
	n, seq, h, e := int64(s.B), int64(s.S), int64(s.H), int64(s.H)
	if s.EmbedDim > 0 {
		e = int64(s.EmbedDim)
	}
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))

	b.begin("embedding", None)
	p := "model.decoder."
	table := b.weight(p+"embed_tokens.weight", int64(s.Vocab), e)
	places := b.weight(p+"embed_positions.weight", int64(s.MaxS)+2, h)
	var projectOut, projectIn TensorID
	if e != h {
		projectOut, projectIn = b.weight(p+"project_out.weight", e, h), b.weight(p+"project_in.weight", h, e)
	}
	tok := b.inputRequiresGrad(b.embedding(table, ids))
	ones := b.plain("aten.ones", F32, Shape(n, seq))
	pos := b.plain("aten._to_copy", I64, Shape(n, seq), b.plain("aten.cumsum", F32, Shape(n, seq), ones))
	mask := TensorID(None)
	if s.Attention == "eager" {
		mask = b.paddedCausalMask(pos)
	}
	place := b.embedding(places, b.withScalar(b.plain("aten.add", I64, Shape(n, seq), pos), 1))
	if e != h {
		narrow := tok
		tok = b.linear(narrow, projectIn, None)
		b.keep(narrow)
	}
	x := b.add(tok, place)

	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.optLayer(p+"layers."+strconv.Itoa(i)+".", x, pos, mask)
	}

	b.begin("head", None)
	if s.FinalNorm {
		x = b.norm(x, p+"final_layer_norm", h)
	}
	if e != h {
		wide := x
		x = b.linear(wide, projectOut, None)
		b.keep(wide)
	}
	b.lmHead(x, table, "lm_head", labels, tok, place, ones, pos, mask)
}

// paddedCausalMask is the causal mask where a padding mask was given, of ones only: the two are combined a sequence.
func (b forward) paddedCausalMask(positions TensorID) TensorID {
	n, s := int64(b.spec.B), int64(b.spec.S)
	causal := b.plain("aten.le", Bool, Shape(1, 1, s, s), positions)
	both := b.plain("aten.bitwise_and", Bool, Shape(n, 1, s, s), causal)
	return b.plain("aten.where", b.actDType(), Shape(n, 1, s, s), both)
}

func (b forward) optLayer(p string, x, pos, mask TensorID) TensorID {
	s := b.spec
	n, seq, h, f := int64(s.B), int64(s.S), int64(s.H), int64(s.FFN)
	pre := s.NormOrder == "pre"
	first := b.next()
	b.argument(pos)
	norm1 := b.next()
	y := x
	if pre {
		y = b.norm(x, p+"self_attn_layer_norm", h)
	}
	a := b.optAttention(p+"self_attn.", norm1, y, pos, mask)
	a = b.dropout(a, s.Dropout.Residual)
	y = b.add(x, a)
	b.keep(a)
	if !pre {
		y = b.norm(y, p+"self_attn_layer_norm", h)
	}

	y = b.reshape(y, n*seq, h)
	residual := y
	norm2 := b.next()
	if pre {
		y = b.norm(y, p+"final_layer_norm", h)
	}
	mlp := b.next()
	u := b.project(p, "fc1", y, h, f, s.Bias.MLP)
	if pre {
		b.span("norm2", norm2)
	}
	act := b.next()
	g := b.activation(s.Activation, u)
	m := b.project(p, "fc2", g, f, h, s.Bias.MLP)
	b.keep(g)
	b.span("act", act)
	b.span("mlp", mlp)
	m = b.dropout(m, s.Dropout.Residual)
	out := b.reshape(b.add(residual, m), n, seq, h)
	b.keep(m)
	if !pre {
		out = b.norm(out, p+"final_layer_norm", h)
	}
	b.keep(x, residual)
	b.endLayer(first)
	return out
}

func (b forward) optAttention(p string, norm OpID, x, pos, mask TensorID) TensorID {
	s := b.spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.next()
	q := b.withScalar(b.mulScalar(b.project(p, "q_proj", x, h, h, s.Bias.QKV)), 1/math.Sqrt(float64(d)))
	q = b.transpose(b.reshape(q, n, seq, a, d), 1, 2)
	k := b.heads(p, "k_proj", x, h, a, d, s.Bias.QKV)
	v := b.heads(p, "v_proj", x, h, a, d, s.Bias.QKV)
	if s.NormOrder == "pre" {
		b.span("norm1", norm)
	}
	// the query is scaled, and the scores are not
	o := b.core(q, k, v, attention{mask: mask, dropout: s.Dropout.Attention, causal: true, groups: 1, factor: 1, fp32Softmax: true}, pos)
	o = b.contiguous(b.reshape(o, n, seq, h))
	out := b.project(p, "out_proj", o, h, h, s.Bias.Out)
	b.keep(x, q, k, v, o)
	b.span("attn", first)
	return out
}

// optConfig: the norms of the 350m follow the sublayers, and none follows the last layer.
func optConfig(c *config, s *Spec) {
	if c.when("do_layer_norm_before", "false", "norm_order") {
		s.NormOrder, s.FinalNorm = "post", false
	}
	if c.when("_remove_final_layer_norm", "true", "final_norm") {
		s.FinalNorm = false
	}
	s.PlainNorm = c.when("layer_norm_elementwise_affine", "false", "plain_norm")
}

// optToConfig is optConfig's inverse.
func optToConfig(s *Spec, config map[string]any) {
	config["do_layer_norm_before"], config["_remove_final_layer_norm"] = s.NormOrder == "pre", !s.FinalNorm
	config["layer_norm_elementwise_affine"] = !s.PlainNorm
}

func optProblems(s *Spec, add func(key, format string, args ...any)) {
	if s.NormOrder == "post" && s.FinalNorm {
		add("final_norm", "final_norm: OPT has none where norms follow the sublayers (norm_order post)")
	}
}
