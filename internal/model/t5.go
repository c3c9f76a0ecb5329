package model

import (
	"strconv"
	"strings"
)

var t5 = class{
	arch: "t5", own: []string{"norm"}, heads: []string{"T5ForConditionalGeneration", "T5WithLMHeadModel"}, eager: true,
	modules: []string{
		"layer.0.SelfAttention.q.", "layer.0.SelfAttention.k.", "layer.0.SelfAttention.v.", "layer.0.SelfAttention.o.", "layer.0.SelfAttention.", "layer.0.",
		"layer.1.EncDecAttention.", "layer.1.DenseReluDense.", "layer.1.", "layer.2.DenseReluDense.", "",
	},
	spec: Spec{
		L: 6, DecoderL: 6, H: 512, Heads: 8, HeadDim: 64, FFN: 2048, Vocab: 32128, Norm: "rmsnorm", NormOrder: "pre", Activation: "relu",
		Positions: "relative", Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1, MLP: .1}, Tied: true, LogitScale: true,
	},
	keys: []hfKey{
		{"num_hidden_layers", "L"},
		{"hidden_size", "H"},
		{"num_attention_heads", "heads"},
		{"head_dim", "head_dim"},
		{"num_layers", "L"},
		{"num_decoder_layers", "decoder_L"},
		{"d_model", "H"},
		{"num_heads", "heads"},
		{"d_kv", "head_dim"},
		{"d_ff", "ffn"},
		{"vocab_size", "vocab"},
		{"n_positions", "max_positions"},
		{"dropout_rate", "dropout.embedding dropout.attention dropout.residual dropout.mlp"},
		{"is_gated_act", "gated"},
		{"dense_act_fn", "activation"},
	},
	only:       []hfOnly{{"relative_attention_num_buckets", "32"}},
	varies:     []string{"decoder_S", "logit_scale"},
	forward:    forward.t5,
	targets:    []string{"q", "v"},
	linearsOf:  t5Linears,
	derive:     t5Config,
	encode:     t5ToConfig,
	problems:   t5Problems,
	seq:        512,
	ownHeadDim: true,
	parts: parts{
		"attn": {Kind: "modules", At: []string{"layer.0.SelfAttention", "layer.1.EncDecAttention"}}, "mlp": module("layer.-1.DenseReluDense"), "core": core("layer.0.SelfAttention"),
		"norm1": fan("layer.0.layer_norm", "layer.0.SelfAttention", "q", "k", "v"),
		"norm2": fan("layer.-1.layer_norm", "layer.-1.DenseReluDense", "wi", "wi_0", "wi_1"), "act": {Kind: "after first", At: []string{"layer.-1.DenseReluDense"}},
	},
	auto: "AutoModelForSeq2SeqLM",
}

// t5Buckets is relative_attention_num_buckets: rows of a stack's relative position table.
const t5Buckets = 32

// t5 is T5ForConditionalGeneration, v1.0 and v1.1 (gated). Layers are counted encoder first, then decoder; every decoder
// layer reads the encoder's output, so the layers are no chain.
// Source: transformers/models/t5/modeling_t5.py.
func (b forward) t5() {
	s := b.spec
	n, se, sd := int64(s.B), int64(s.S), int64(s.DecoderS)
	ids := b.static("input_ids", Input, I64, Shape(n, se))
	decoderIDs := b.static("decoder_input_ids", Input, I64, Shape(n, sd))
	labels := b.static("labels", Input, I64, Shape(n, sd))
	b.g.Chain = false

	b.begin("embedding", None)
	table := b.weight("shared.weight", int64(s.Vocab), int64(s.H))
	enc := b.t5Stack(t5Stack{name: "encoder", layers: s.L, memory: None}, table, ids)
	if s.Train.KeepLogits {
		b.keepUntil(enc, DropAfterBackward) // encoder_last_hidden_state of the model's output
	} else {
		b.keepUntil(enc, DropAfterForward)
	}

	b.g.storageOf(enc).Positional = true
	b.begin("decoder embedding", None)
	dec := b.t5Stack(t5Stack{name: "decoder", layers: s.DecoderL, base: s.L, memory: enc, decodes: true}, table, decoderIDs)

	y := dec
	if s.LogitScale {
		y = b.mulScalar(dec)
	}
	logits := b.linear(y, table, None)
	b.keepLogits(logits)
	b.g.Loss = b.crossEntropy(b.reshape(logits, n*sd, int64(s.Vocab)), b.reshape(labels, n*sd))
	b.keep(dec, y)
}

// t5Stack is the encoder or the decoder: which layers, and what its cross-attention reads.
type t5Stack struct {
	name         string
	layers, base int
	memory       TensorID
	decodes      bool
}

// t5Biases are the position biases that a stack's first layer makes for all of them.
type t5Biases struct{ self, cross TensorID }

func (b forward) t5Stack(st t5Stack, table, ids TensorID) TensorID {
	s := b.spec
	embedded := b.inputRequiresGrad(b.embedding(table, ids))
	mask := TensorID(None)
	if st.decodes {
		n, seq := int64(s.B), b.tensor(ids).Shape.At(-1)
		ok := b.plain("aten.le", Bool, Shape(1, 1, seq, seq))
		mask = b.plain("aten.where", b.actDType(), Shape(n, 1, seq, seq), ok)
		b.g.storageOf(mask).Positional = true
	}
	x := b.dropout(embedded, s.Dropout.Embedding)
	bias := t5Biases{None, None}
	for i := range st.layers {
		b.begin("layers."+strconv.Itoa(st.base+i), st.base+i)
		x = b.t5Layer(st.name+".block."+strconv.Itoa(i)+".layer.", st, x, mask, &bias)
	}
	if st.decodes {
		b.begin("head", None)
	}
	y := b.t5Norm(x, st.name+".final_layer_norm")
	y = b.dropout(y, s.Dropout.Embedding)
	b.keep(embedded, mask, x, bias.self, bias.cross)
	return y
}

// t5Norm is T5LayerNorm: weight * x * rsqrt(mean(x²) + ε), with the mean in fp32 and x as it is.
func (b forward) t5Norm(x TensorID, name string) TensorID {
	variance := b.mean(b.pow(b.to(x, F32)))
	y := b.mul(x, b.unary(OpRsqrt, b.addScalar(variance)))
	low := b.to(y, b.dtype)
	out := b.mul(b.weight(name+".weight", int64(b.spec.H)), low)
	b.keep(x, variance, low)
	return out
}

func (b forward) t5Layer(p string, st t5Stack, x, mask TensorID, bias *t5Biases) TensorID {
	first := b.next()
	b.argument(mask)
	norm1 := b.next()
	y := b.t5Norm(x, p+"0.layer_norm")
	a := b.t5Attention(p+"0.SelfAttention.", norm1, y, None, mask, &bias.self, st.decodes)
	h := b.t5Add(x, a)
	b.keep(y)
	held := []TensorID{x, h}
	h = b.t5Clamp(h)
	if st.decodes {
		y = b.t5Norm(h, p+"1.layer_norm")
		a = b.t5Attention(p+"1.EncDecAttention.", None, y, st.memory, None, &bias.cross, true)
		h = b.t5Add(h, a)
		b.keep(y)
		held = append(held, h)
		h = b.t5Clamp(h)
	}
	ff := "1."
	if st.decodes {
		ff = "2."
	}
	norm2 := b.next()
	y = b.t5Norm(h, p+ff+"layer_norm")
	out := b.t5Clamp(b.t5Add(h, b.t5MLP(p+ff+"DenseReluDense.", norm2, y)))
	b.keep(held...)
	b.keep(bias.self, bias.cross)
	b.endLayer(first)
	return out
}

// t5Add is x + dropout(branch).
func (b forward) t5Add(x, branch TensorID) TensorID {
	out := b.add(x, b.dropout(branch, b.spec.Dropout.Residual))
	b.keep(x, branch)
	return out
}

// t5Clamp is what the block does to each sum in fp16: infinities become the largest number.
//
//	value = where(isinf(x).any(), max - 1000, max); x = clamp(x, min=-value, max=value)
func (b forward) t5Clamp(x TensorID) TensorID {
	v := *b.tensor(x)
	if v.DType != F16 {
		return x
	}
	infinite := b.plain("aten.any", Bool, Dims{}, b.plain("aten.isinf", Bool, v.Shape, x))
	value := b.plain("aten.where", F32, Dims{}, infinite)
	least := b.plain("aten.neg", F32, Dims{}, value)
	b.emit(OpClamp, Attr{}, x, least, value)
	return b.fresh(v.DType, v.Shape, ElementwiseStrides(v.Shape, v.Layout))
}

// t5Attention reads x, or x and memory in cross-attention; the first layer of a stack makes the bias that all share.
func (b forward) t5Attention(p string, norm OpID, x, memory, mask TensorID, bias *TensorID, decodes bool) TensorID {
	s := b.spec
	n, h, a, d := int64(s.B), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	from := x
	if memory >= 0 {
		from = memory
	}
	first := b.next()
	q := b.heads(p, "q", x, h, a, d, false)
	k := b.heads(p, "k", from, h, a, d, false)
	v := b.heads(p, "v", from, h, a, d, false)
	if memory < 0 {
		b.span("norm1", norm)
	}
	b.argument(mask) // only the stack's first layer reads it
	scores := b.matmul(q, b.transpose(k, 2, 3))
	if *bias < 0 {
		sq, sk := b.tensor(q).Shape.D[2], b.tensor(k).Shape.D[2]
		if memory < 0 {
			*bias = b.relativeBias(b.weight(p+"relative_attention_bias.weight", t5Buckets, a), sq, sk, !decodes)
		} else {
			*bias = b.zeroBias(b.tensor(scores).DType, Shape(1, a, sq, sk))
		}
		if mask >= 0 {
			*bias = b.add(*bias, mask)
		}
		b.g.storageOf(*bias).Positional = true
	}
	scores = b.addInPlace(scores, *bias)
	w := b.to(b.softmax(b.to(scores, F32), F32), b.tensor(scores).DType)
	w = b.dropout(w, s.Dropout.Attention)
	o := b.contiguous(b.transpose(b.matmul(w, v), 1, 2))
	o = b.reshape(o, n, b.tensor(x).Shape.D[1], a*d)
	out := b.project(p, "o", o, a*d, h, false)
	b.keep(x, memory, mask, q, k, v, scores, w, o, *bias)
	b.span("attn", first)
	return out
}

// zeroBias is the cross-attention's position bias: zeros, which are told to take a gradient where the class checkpoints
// its layers itself.
func (b forward) zeroBias(dt DType, shape Dims) TensorID {
	z := b.plain("aten.zeros", dt, shape)
	if b.wholeLayers() {
		b.tensor(z).Grad = true
		b.keepUntil(z, DropAfterBackward)
	}
	return z
}

// relativeBias looks a bias a head up by the bucket of each distance between a query and a key: [1, a, Sq, Sk].
func (b forward) relativeBias(table TensorID, sq, sk int64, bothWays bool) TensorID {
	square := Shape(sq, sk)
	ints := func(name string, ins ...TensorID) TensorID { return b.plain(name, I64, square, ins...) }
	reals := func(name string, x TensorID) TensorID { return b.plain(name, F32, square, x) }
	at := b.plain("aten.add", I64, Shape(sq, 1), b.plain("aten.arange", I64, Shape(sq)))
	keys := b.plain("aten.arange", I64, Shape(sk))
	distance := ints("aten.sub", keys, at)
	side, far := TensorID(None), TensorID(None)
	if bothWays {
		side = ints("aten.add", ints("aten.mul", ints("aten._to_copy", b.plain("aten.gt", Bool, square, distance))))
		far = ints("aten.abs", distance)
	} else {
		far = ints("aten.neg", ints("aten.minimum", distance, ints("aten.zeros_like")))
	}
	near := b.plain("aten.lt", Bool, square, far)
	log := reals("aten.div", reals("aten.log", reals("aten.div", reals("aten._to_copy", far))))
	large := ints("aten.add", ints("aten._to_copy", reals("aten.mul", log)))
	least := ints("aten.minimum", large, ints("aten.full_like", large))
	bucket := ints("aten.where", near, far, least)
	if bothWays {
		b.keep(bucket)
		bucket = side // added in place
	} else {
		bucket = ints("aten.add", bucket)
	}
	b.keep(near, far, least)
	values := b.embedding(table, bucket)
	b.keep(at, keys, distance)
	v := b.transpose(b.transpose(values, 0, 2), 1, 2)
	return b.unsqueeze(v, 0)
}

// t5MLP is T5DenseActDense or its gated kind; under autocast the product is cast to wo's fp32 before autocast casts it
// back.
func (b forward) t5MLP(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	var y TensorID
	var act OpID
	held := []TensorID{x}
	if s.Gated {
		up := b.project(p, "wi_0", x, h, f, false)
		act = b.next()
		g := b.activation(s.Activation, up)
		lin := b.project(p, "wi_1", x, h, f, false)
		b.span("norm2", norm)
		y = b.mul(g, lin)
		held = append(held, g, lin)
	} else {
		up := b.project(p, "wi", x, h, f, false)
		b.span("norm2", norm)
		act = b.next()
		y = b.activation(s.Activation, up)
	}
	y = b.to(b.dropout(y, s.Dropout.MLP), b.dtype)
	out := b.project(p, "wo", y, f, h, false)
	b.keep(y)
	b.span("act", act)
	b.keep(held...)
	b.span("mlp", first)
	return out
}

// t5Config splits feed_forward_proj ("relu", "gated-gelu"), whose gated-gelu means gelu_new; is_gated_act and dense_act_fn, which
// follow from it, win where a config has them. tie_word_embeddings says whether the decoder's output is scaled.
func t5Config(c *config, s *Spec) {
	switch v := c.get("num_layers"); { // num_hidden_layers, which is set later, leaves the decoder alone
	case v == nil || c.given("decoder_L"):
	case v == c.spec["L"]:
		s.DecoderL = s.L
	default:
		c.value(s, fieldOf("decoder_L"), v)
	}
	if v := c.get("tie_word_embeddings"); v != nil && v.Value == "false" {
		s.LogitScale = false // scale_decoder_outputs; the head is tied all the same
		c.spec["logit_scale"] = v
	}
	v := c.get("feed_forward_proj")
	if v == nil {
		return
	}
	act, gated := strings.CutPrefix(v.Value, "gated-")
	if gated && !c.given("gated") {
		s.Gated = true
		c.spec["gated"] = v
	}
	if gated && act == "gelu" {
		act = "gelu_new"
	}
	if c.given("activation") {
		return
	}
	word, problem := choose(fieldOf("activation"), act)
	if problem != "" {
		c.at(v, "feed_forward_proj: %s", problem)
	}
	s.Activation = word
	c.spec["activation"] = v
}

// t5ToConfig sets what follows from feed_forward_proj as itself, by keys, and the scale of the decoder's output:
// feed_forward_proj cannot say it all, since its gated-gelu is gelu_new.
func t5ToConfig(s *Spec, config map[string]any) { config["tie_word_embeddings"] = s.LogitScale }

func t5Linears(s *Spec) []string {
	if s.Gated {
		return []string{"q", "k", "v", "o", "wi_0", "wi_1", "wo"}
	}
	return []string{"q", "k", "v", "o", "wi", "wo"}
}

func t5Problems(s *Spec, add func(key, format string, args ...any)) {
	if s.Precision == "fp16" {
		add("dtype", "dtype fp16: T5 keeps wo in fp32 when it is loaded so, which is not modelled: use bf16, fp32 or amp")
	}
}
