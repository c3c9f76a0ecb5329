package model

import (
	"math"
	"strconv"
)

var gpt2 = class{
	arch: "gpt2", heads: []string{"GPT2LMHeadModel"},
	spec: Spec{
		L: 12, H: 768, Heads: 12, Vocab: 50257, MaxS: 1024, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new",
		Positions: "learned", Bias: allBias, Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
	},
	keys: concat([]hfKey{
		{"num_hidden_layers", "L"},
		{"hidden_size", "H"},
		{"num_attention_heads", "heads"},
		{"max_position_embeddings", "max_positions"},
		{"n_layer", "L"},
		{"n_embd", "H"},
		{"n_head", "heads"},
		{"n_inner", "ffn"},
		{"n_positions", "max_positions"},
		{"vocab_size", "vocab"},
		{"activation_function", "activation"},
		{"embd_pdrop", "dropout.embedding"},
		{"attn_pdrop", "dropout.attention"},
		{"resid_pdrop", "dropout.residual"},
		{"scale_attn_by_inverse_layer_idx", "layer_scaled_attention"},
		{"reorder_and_upcast_attn", "upcast_attention"},
	}, tiedKey),
	only:    []hfOnly{{"add_cross_attention", "false"}},
	varies:  []string{"unscaled_attention"},
	forward: forward.gpt2,
	linears: []string{"c_attn", "c_proj", "c_fc"},
	targets: []string{"c_attn"},
	derive:  gpt2Config,
	encode:  gpt2ToConfig,
	parts:   parts{"attn": module("attn"), "mlp": module("mlp"), "core": core("attn"), "norm1": fan("ln_1", "attn", "c_attn"), "norm2": fan("ln_2", "mlp", "c_fc"), "act": fan("mlp.act", "mlp", "c_proj")},
}

// gpt2 is GPT2LMHeadModel. Source: transformers/models/gpt2/modeling_gpt2.py.
func (b forward) gpt2() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))

	b.begin("embedding", None)
	wte := b.weight("transformer.wte.weight", int64(s.Vocab), h)
	wpe := b.weight("transformer.wpe.weight", int64(s.MaxS), h)
	tok := b.inputRequiresGrad(b.embedding(wte, ids))
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	pe := b.embedding(wpe, pos)
	x := b.add(tok, pe)
	mask := TensorID(None)
	if s.Attention == "eager" {
		mask = b.causalMask(pos)
		b.g.storageOf(mask).Positional = true
	}
	x = b.dropout(x, s.Dropout.Embedding)
	b.keep(tok, pe)
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.gpt2Layer("transformer.h."+strconv.Itoa(i)+".", i, x, pos, mask)
		b.keep(tok, pe)
	}
	b.begin("head", None)
	y := b.norm(x, "transformer.ln_f", h)
	b.keep(x, tok, pe, pos, mask)
	y = b.reshape(y, n, seq, h)
	b.lmHead(y, wte, "lm_head", labels)
}

// gpt2Layer is a block's forward; the model's loop holds its input until it returns.
func (b forward) gpt2Layer(p string, layer int, in, pos, mask TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	b.argument(pos)
	norm1 := b.next()
	residual := in
	y := b.norm(in, p+"ln_1", h)
	a := b.gpt2Attention(p+"attn.", norm1, y, pos, mask, gpt2Scale(s, layer))
	b.keep(y, residual)
	x := b.add(a, residual)
	b.keep(y)

	norm2 := b.next()
	residual = x
	y = b.norm(x, p+"ln_2", h)
	mlp := b.next()
	fc := b.projectConv1D(p+"mlp.", "c_fc", y, h, f)
	b.span("norm2", norm2)
	act := b.next()
	g := b.activation(s.Activation, fc)
	o := b.projectConv1D(p+"mlp.", "c_proj", g, f, h)
	b.keep(g)
	b.span("act", act)
	m := b.dropout(o, s.Dropout.Residual)
	b.keep(y, o)
	b.span("mlp", mlp)
	z := b.add(residual, m)
	b.keep(in, a, y)
	b.endLayer(first)
	return z
}

// gpt2Scale is the factor of a layer's attention scores.
func gpt2Scale(s *Spec, layer int) float64 {
	factor := 1.0
	if !s.UnscaledAttn {
		factor = 1 / math.Sqrt(float64(s.HeadDim))
	}
	if s.LayerScaledAttn {
		factor /= float64(layer + 1)
	}
	return factor
}

func (b forward) gpt2Attention(p string, norm OpID, x, pos, mask TensorID, scale float64) TensorID {
	s := b.spec
	first := b.next()
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	qkv := b.projectConv1D(p, "c_attn", x, h, 3*h)
	b.span("norm1", norm)
	parts := b.split(qkv, 2, h, h, h)
	var hd [3]TensorID
	for _, i := range []int{1, 2, 0} {
		hd[i] = b.transpose(b.reshape(parts[i], n, seq, a, d), 1, 2)
	}
	at := attention{mask: mask, dropout: s.Dropout.Attention, causal: true, groups: 1, factor: scale, plainCast: true, keepLayout: true}
	var o TensorID
	if s.UpcastAttn && s.Attention == "eager" {
		o = b.upcastAttention(hd[0], hd[1], hd[2], at)
	} else {
		o = b.core(hd[0], hd[1], hd[2], at, pos)
	}
	o = b.contiguous(b.reshape(o, n, seq, h))
	out := b.projectConv1D(p, "c_proj", o, h, h)
	b.keep(o)
	res := b.dropout(out, s.Dropout.Residual)
	b.keep(x, out, hd[0], hd[1], hd[2])
	b.span("attn", first)
	return res
}

// upcastAttention is GPT2Attention._upcast_and_reordered_attn: scores in fp32 by one baddbmm onto an empty tensor, outside
// autocast, and weights in fp32 until they meet the values.
func (b forward) upcastAttention(q, k, v TensorID, a attention) TensorID {
	s := b.tensor(q).Shape
	n, seq, d := s.D[0]*s.D[1], s.D[2], s.D[3]
	empty := b.plain("aten.empty", F32, Shape(n, seq, seq))
	amp := b.amp
	b.amp = false
	rows := b.reshape(q, n, seq, d)
	columns := b.reshape(b.transpose(k, 2, 3), n, d, seq)
	scores := b.baddbmm(empty, b.to(rows, F32), b.to(columns, F32), a.factor)
	b.amp = amp
	w := b.add(b.reshape(scores, s.D[0], s.D[1], seq, seq), a.mask)
	w = b.softmaxAuto(w)
	w = b.to(w, b.tensor(v).DType) // a statement of its own
	w = b.dropout(w, a.dropout)
	o := b.transpose(b.matmul(w, v), 1, 2)
	b.keep(q, k, v, rows, columns, w)
	b.weights = w
	return o
}

func gpt2Config(c *config, s *Spec) {
	s.UnscaledAttn = c.when("scale_attn_weights", "false", "unscaled_attention")
}

func gpt2ToConfig(s *Spec, config map[string]any) { config["scale_attn_weights"] = !s.UnscaledAttn }
