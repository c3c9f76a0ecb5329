package class

import (
	"math"
	"strconv"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var gpt2 = Class{
	Arch: "gpt2", Heads: []string{"GPT2LMHeadModel"},
	Spec: spec.Spec{
		L: 12, H: 768, Heads: 12, Vocab: 50257, MaxS: 1024, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new",
		Positions: "learned", Bias: allBias, Dropout: spec.Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
	},
	Keys: Concat([]hfKey{
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
	Only: []hfOnly{{"add_cross_attention", "false"}}, OwnLinear: true,
	varies:  []string{"unscaled_attention"},
	Forward: Forward.gpt2,
	Linears: []string{"c_attn", "c_proj", "c_fc"},
	Targets: []string{"c_attn"},
	Derive:  gpt2Config,
	encode:  gpt2ToConfig,
	parts:   parts{"attn": module("attn"), "mlp": module("mlp"), "core": core("attn"), "norm1": fan("ln_1", "attn", "c_attn"), "norm2": fan("ln_2", "mlp", "c_fc"), "act": fan("mlp.act", "mlp", "c_proj")},
}

// gpt2 is GPT2LMHeadModel. Source: transformers/models/gpt2/modeling_gpt2.py.
func (b Forward) gpt2() {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n, seq))

	b.Begin("embedding", graph.None)
	wte := b.Weight("transformer.wte.weight", int64(s.Vocab), h)
	wpe := b.Weight("transformer.wpe.weight", int64(s.MaxS), h)
	tok := b.InputRequiresGrad(b.Embedding(wte, ids))
	pos := b.Plain("aten.add", dtype.I64, graph.Shape(1, seq), b.Plain("aten.arange", dtype.I64, graph.Shape(seq)))
	pe := b.Embedding(wpe, pos)
	x := b.Add(tok, pe)
	mask := graph.TensorID(graph.None)
	if s.Attention == "eager" {
		mask = b.CausalMask(pos)
		b.G.StorageOf(mask).Positional = true
	}
	x = b.Dropout(x, s.Dropout.Embedding)
	b.Keep(tok, pe)
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.gpt2Layer("transformer.h."+strconv.Itoa(i)+".", i, x, pos, mask)
		b.Keep(tok, pe)
	}
	b.Begin("head", graph.None)
	y := b.Norm(x, "transformer.ln_f", h)
	b.Keep(x, tok, pe, pos, mask)
	y = b.Reshape(y, n, seq, h)
	b.LmHead(y, wte, "lm_head", labels)
}

// gpt2Layer is a block's forward; the model's loop holds its input until it returns.
func (b Forward) gpt2Layer(p string, layer int, in, pos, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	b.Argument(pos)
	norm1 := b.Next()
	residual := in
	y := b.Norm(in, p+"ln_1", h)
	a := b.gpt2Attention(p+"attn.", norm1, y, pos, mask, gpt2Scale(s, layer))
	b.Keep(y, residual)
	x := b.Add(a, residual)
	b.Keep(y)

	norm2 := b.Next()
	residual = x
	y = b.Norm(x, p+"ln_2", h)
	mlp := b.Next()
	fc := b.ProjectConv1D(p+"mlp.", "c_fc", y, h, f)
	b.Span("norm2", norm2)
	act := b.Next()
	g := b.Activation(s.Activation, fc)
	o := b.ProjectConv1D(p+"mlp.", "c_proj", g, f, h)
	b.Keep(g)
	b.Span("act", act)
	m := b.Dropout(o, s.Dropout.Residual)
	b.Keep(y, o)
	b.Span("mlp", mlp)
	z := b.Add(residual, m)
	b.Keep(in, a, y)
	b.EndLayer(first)
	return z
}

// gpt2Scale is the factor of a layer's attention scores.
func gpt2Scale(s *spec.Spec, layer int) float64 {
	factor := 1.0
	if !s.UnscaledAttn {
		factor = 1 / math.Sqrt(float64(s.HeadDim))
	}
	if s.LayerScaledAttn {
		factor /= float64(layer + 1)
	}
	return factor
}

func (b Forward) gpt2Attention(p string, norm graph.OpID, x, pos, mask graph.TensorID, scale float64) graph.TensorID {
	s := b.Spec
	first := b.Next()
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	qkv := b.ProjectConv1D(p, "c_attn", x, h, 3*h)
	b.Span("norm1", norm)
	parts := b.Split(qkv, 2, h, h, h)
	var hd [3]graph.TensorID
	for _, i := range []int{1, 2, 0} {
		hd[i] = b.Transpose(b.Reshape(parts[i], n, seq, a, d), 1, 2)
	}
	at := build.Attention{Mask: mask, Dropout: s.Dropout.Attention, Causal: true, Groups: 1, Factor: scale, PlainCast: true, KeepLayout: true}
	var o graph.TensorID
	if s.UpcastAttn && s.Attention == "eager" {
		o = b.upcastAttention(hd[0], hd[1], hd[2], at)
	} else {
		o = b.Core(hd[0], hd[1], hd[2], at, pos)
	}
	o = b.Contiguous(b.Reshape(o, n, seq, h))
	out := b.ProjectConv1D(p, "c_proj", o, h, h)
	b.Keep(o)
	res := b.Dropout(out, s.Dropout.Residual)
	b.Keep(x, out, hd[0], hd[1], hd[2])
	b.Span("attn", first)
	return res
}

// upcastAttention is GPT2Attention._upcast_and_reordered_attn: scores in fp32 by one baddbmm onto an empty tensor, outside
// autocast, and weights in fp32 until they meet the values.
func (b Forward) upcastAttention(q, k, v graph.TensorID, a build.Attention) graph.TensorID {
	s := b.Tensor(q).Shape
	n, seq, d := s.D[0]*s.D[1], s.D[2], s.D[3]
	empty := b.Plain("aten.empty", dtype.F32, graph.Shape(n, seq, seq))
	amp := b.Amp
	b.Amp = false
	rows := b.Reshape(q, n, seq, d)
	columns := b.Reshape(b.Transpose(k, 2, 3), n, d, seq)
	scores := b.baddbmm(empty, b.To(rows, dtype.F32), b.To(columns, dtype.F32), a.Factor)
	b.Amp = amp
	w := b.Add(b.Reshape(scores, s.D[0], s.D[1], seq, seq), a.Mask)
	w = b.SoftmaxAuto(w)
	w = b.To(w, b.Tensor(v).DType) // a statement of its own
	w = b.Dropout(w, a.Dropout)
	o := b.Transpose(b.Matmul(w, v), 1, 2)
	b.Keep(q, k, v, rows, columns, w)
	b.Weights = w
	return o
}

func gpt2Config(c *Config, s *spec.Spec) {
	s.UnscaledAttn = c.when("scale_attn_weights", "false", "unscaled_attention")
}

func gpt2ToConfig(s *spec.Spec, config map[string]any) {
	config["scale_attn_weights"] = !s.UnscaledAttn
}
