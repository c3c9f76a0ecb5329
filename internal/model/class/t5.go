package class

import (
	"strconv"
	"strings"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var t5 = Class{
	Arch: "t5", Own: []string{"norm"}, Heads: []string{"T5ForConditionalGeneration", "T5WithLMHeadModel"}, Eager: true,
	Modules: []string{
		"layer.0.SelfAttention.q.", "layer.0.SelfAttention.k.", "layer.0.SelfAttention.v.", "layer.0.SelfAttention.o.", "layer.0.SelfAttention.", "layer.0.",
		"layer.1.EncDecAttention.", "layer.1.DenseReluDense.", "layer.1.", "layer.2.DenseReluDense.", "",
	},
	Spec: spec.Spec{
		L: 6, DecoderL: 6, H: 512, Heads: 8, HeadDim: 64, FFN: 2048, Vocab: 32128, Norm: "rmsnorm", NormOrder: "pre", Activation: "relu",
		Positions: "relative", Dropout: spec.Dropout{Embedding: .1, Attention: .1, Residual: .1, MLP: .1}, Tied: true, LogitScale: true,
	},
	Keys: []hfKey{
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
	Only:       []hfOnly{{"relative_attention_num_buckets", "32"}},
	varies:     []string{"decoder_S", "logit_scale"},
	Forward:    Forward.t5,
	Targets:    []string{"q", "v"},
	LinearsOf:  t5Linears,
	Derive:     t5Config,
	encode:     t5ToConfig,
	Problems:   t5Problems,
	Seq:        512,
	OwnHeadDim: true,
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
func (b Forward) t5() {
	s := b.Spec
	n, se, sd := int64(s.B), int64(s.S), int64(s.DecoderS)
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, se))
	decoderIDs := b.Static("decoder_input_ids", graph.Input, dtype.I64, graph.Shape(n, sd))
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n, sd))
	b.G.Chain = false

	b.Begin("embedding", graph.None)
	table := b.Weight("shared.weight", int64(s.Vocab), int64(s.H))
	enc := b.t5Stack(t5Stack{name: "encoder", layers: s.L, memory: graph.None}, table, ids)
	if s.Train.KeepLogits {
		b.KeepUntil(enc, graph.DropAfterBackward) // encoder_last_hidden_state of the model's output
	} else {
		b.KeepUntil(enc, graph.DropAfterForward)
	}

	b.G.StorageOf(enc).Positional = true
	b.Begin("decoder embedding", graph.None)
	dec := b.t5Stack(t5Stack{name: "decoder", layers: s.DecoderL, base: s.L, memory: enc, decodes: true}, table, decoderIDs)

	y := dec
	if s.LogitScale {
		y = b.MulScalar(dec)
	}
	logits := b.Linear(y, table, graph.None)
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, n*sd, int64(s.Vocab)), b.Reshape(labels, n*sd))
	b.Keep(dec, y)
}

// t5Stack is the encoder or the decoder: which layers, and what its cross-attention reads.
type t5Stack struct {
	name         string
	layers, base int
	memory       graph.TensorID
	decodes      bool
}

// t5Biases are the position biases that a stack's first layer makes for all of them.
type t5Biases struct{ self, cross graph.TensorID }

func (b Forward) t5Stack(st t5Stack, table, ids graph.TensorID) graph.TensorID {
	s := b.Spec
	embedded := b.InputRequiresGrad(b.Embedding(table, ids))
	mask := graph.TensorID(graph.None)
	if st.decodes {
		n, seq := int64(s.B), b.Tensor(ids).Shape.At(-1)
		ok := b.Plain("aten.le", dtype.Bool, graph.Shape(1, 1, seq, seq))
		mask = b.Plain("aten.where", b.ActDType(), graph.Shape(n, 1, seq, seq), ok)
		b.G.StorageOf(mask).Positional = true
	}
	x := b.Dropout(embedded, s.Dropout.Embedding)
	bias := t5Biases{graph.None, graph.None}
	for i := range st.layers {
		b.Begin("layers."+strconv.Itoa(st.base+i), st.base+i)
		x = b.t5Layer(st.name+".block."+strconv.Itoa(i)+".layer.", st, x, mask, &bias)
	}
	if st.decodes {
		b.Begin("head", graph.None)
	}
	y := b.t5Norm(x, st.name+".final_layer_norm")
	y = b.Dropout(y, s.Dropout.Embedding)
	b.Keep(embedded, mask, x, bias.self, bias.cross)
	return y
}

// t5Norm is T5LayerNorm: weight * x * rsqrt(mean(x²) + ε), with the mean in fp32 and x as it is.
func (b Forward) t5Norm(x graph.TensorID, name string) graph.TensorID {
	variance := b.Mean(b.Pow(b.To(x, dtype.F32)))
	y := b.Mul(x, b.Unary(graph.OpRsqrt, b.AddScalar(variance)))
	low := b.To(y, b.Dtype)
	out := b.Mul(b.Weight(name+".weight", int64(b.Spec.H)), low)
	b.Keep(x, variance, low)
	return out
}

func (b Forward) t5Layer(p string, st t5Stack, x, mask graph.TensorID, bias *t5Biases) graph.TensorID {
	first := b.Next()
	b.Argument(mask)
	norm1 := b.Next()
	y := b.t5Norm(x, p+"0.layer_norm")
	a := b.t5Attention(p+"0.SelfAttention.", norm1, y, graph.None, mask, &bias.self, st.decodes)
	h := b.t5Add(x, a)
	b.Keep(y)
	held := []graph.TensorID{x, h}
	h = b.t5Clamp(h)
	if st.decodes {
		y = b.t5Norm(h, p+"1.layer_norm")
		a = b.t5Attention(p+"1.EncDecAttention.", graph.None, y, st.memory, graph.None, &bias.cross, true)
		h = b.t5Add(h, a)
		b.Keep(y)
		held = append(held, h)
		h = b.t5Clamp(h)
	}
	ff := "1."
	if st.decodes {
		ff = "2."
	}
	norm2 := b.Next()
	y = b.t5Norm(h, p+ff+"layer_norm")
	out := b.t5Clamp(b.t5Add(h, b.t5MLP(p+ff+"DenseReluDense.", norm2, y)))
	b.Keep(held...)
	b.Keep(bias.self, bias.cross)
	b.EndLayer(first)
	return out
}

// t5Add is x + dropout(branch).
func (b Forward) t5Add(x, branch graph.TensorID) graph.TensorID {
	out := b.Add(x, b.Dropout(branch, b.Spec.Dropout.Residual))
	b.Keep(x, branch)
	return out
}

// t5Clamp is what the block does to each sum in fp16: infinities become the largest number.
//
//	value = where(isinf(x).any(), max - 1000, max); x = clamp(x, min=-value, max=value)
func (b Forward) t5Clamp(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	if v.DType != dtype.F16 {
		return x
	}
	infinite := b.Plain("aten.any", dtype.Bool, graph.Dims{}, b.Plain("aten.isinf", dtype.Bool, v.Shape, x))
	value := b.Plain("aten.where", dtype.F32, graph.Dims{}, infinite)
	least := b.Plain("aten.neg", dtype.F32, graph.Dims{}, value)
	b.Emit(graph.OpClamp, graph.Attr{}, x, least, value)
	return b.Fresh(v.DType, v.Shape, graph.ElementwiseStrides(v.Shape, v.Layout))
}

// t5Attention reads x, or x and memory in cross-attention; the first layer of a stack makes the bias that all share.
func (b Forward) t5Attention(p string, norm graph.OpID, x, memory, mask graph.TensorID, bias *graph.TensorID, decodes bool) graph.TensorID {
	s := b.Spec
	n, h, a, d := int64(s.B), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	from := x
	if memory >= 0 {
		from = memory
	}
	first := b.Next()
	q := b.Heads(p, "q", x, h, a, d, false)
	k := b.Heads(p, "k", from, h, a, d, false)
	v := b.Heads(p, "v", from, h, a, d, false)
	if memory < 0 {
		b.Span("norm1", norm)
	}
	b.Argument(mask) // only the stack's first layer reads it
	scores := b.Matmul(q, b.Transpose(k, 2, 3))
	if *bias < 0 {
		sq, sk := b.Tensor(q).Shape.D[2], b.Tensor(k).Shape.D[2]
		if memory < 0 {
			*bias = b.relativeBias(b.Weight(p+"relative_attention_bias.weight", t5Buckets, a), sq, sk, !decodes)
		} else {
			*bias = b.zeroBias(b.Tensor(scores).DType, graph.Shape(1, a, sq, sk))
		}
		if mask >= 0 {
			*bias = b.Add(*bias, mask)
		}
		b.G.StorageOf(*bias).Positional = true
	}
	scores = b.AddInPlace(scores, *bias)
	w := b.To(b.Softmax(b.To(scores, dtype.F32), dtype.F32), b.Tensor(scores).DType)
	w = b.Dropout(w, s.Dropout.Attention)
	o := b.Contiguous(b.Transpose(b.Matmul(w, v), 1, 2))
	o = b.Reshape(o, n, b.Tensor(x).Shape.D[1], a*d)
	out := b.Project(p, "o", o, a*d, h, false)
	b.Keep(x, memory, mask, q, k, v, scores, w, o, *bias)
	b.Span("attn", first)
	return out
}

// zeroBias is the cross-attention's position bias: zeros, which are told to take a gradient where the class checkpoints
// its layers itself.
func (b Forward) zeroBias(dt dtype.DType, shape graph.Dims) graph.TensorID {
	z := b.Plain("aten.zeros", dt, shape)
	if b.WholeLayers() {
		b.Tensor(z).Grad = true
		b.KeepUntil(z, graph.DropAfterBackward)
	}
	return z
}

// relativeBias looks a bias a head up by the bucket of each distance between a query and a key: [1, a, Sq, Sk].
func (b Forward) relativeBias(table graph.TensorID, sq, sk int64, bothWays bool) graph.TensorID {
	square := graph.Shape(sq, sk)
	ints := func(name string, ins ...graph.TensorID) graph.TensorID {
		return b.Plain(name, dtype.I64, square, ins...)
	}
	reals := func(name string, x graph.TensorID) graph.TensorID { return b.Plain(name, dtype.F32, square, x) }
	at := b.Plain("aten.add", dtype.I64, graph.Shape(sq, 1), b.Plain("aten.arange", dtype.I64, graph.Shape(sq)))
	keys := b.Plain("aten.arange", dtype.I64, graph.Shape(sk))
	distance := ints("aten.sub", keys, at)
	side, far := graph.TensorID(graph.None), graph.TensorID(graph.None)
	if bothWays {
		side = ints("aten.add", ints("aten.mul", ints("aten._to_copy", b.Plain("aten.gt", dtype.Bool, square, distance))))
		far = ints("aten.abs", distance)
	} else {
		far = ints("aten.neg", ints("aten.minimum", distance, ints("aten.zeros_like")))
	}
	near := b.Plain("aten.lt", dtype.Bool, square, far)
	log := reals("aten.div", reals("aten.log", reals("aten.div", reals("aten._to_copy", far))))
	large := ints("aten.add", ints("aten._to_copy", reals("aten.mul", log)))
	least := ints("aten.minimum", large, ints("aten.full_like", large))
	bucket := ints("aten.where", near, far, least)
	if bothWays {
		b.Keep(bucket)
		bucket = side // added in place
	} else {
		bucket = ints("aten.add", bucket)
	}
	b.Keep(near, far, least)
	values := b.Embedding(table, bucket)
	b.Keep(at, keys, distance)
	v := b.Transpose(b.Transpose(values, 0, 2), 1, 2)
	return b.Unsqueeze(v, 0)
}

// t5MLP is T5DenseActDense or its gated kind; under autocast the product is cast to wo's fp32 before autocast casts it
// back.
func (b Forward) t5MLP(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	var y graph.TensorID
	var act graph.OpID
	held := []graph.TensorID{x}
	if s.Gated {
		up := b.Project(p, "wi_0", x, h, f, false)
		act = b.Next()
		g := b.Activation(s.Activation, up)
		lin := b.Project(p, "wi_1", x, h, f, false)
		b.Span("norm2", norm)
		y = b.Mul(g, lin)
		held = append(held, g, lin)
	} else {
		up := b.Project(p, "wi", x, h, f, false)
		b.Span("norm2", norm)
		act = b.Next()
		y = b.Activation(s.Activation, up)
	}
	y = b.To(b.Dropout(y, s.Dropout.MLP), b.Dtype)
	out := b.Project(p, "wo", y, f, h, false)
	b.Keep(y)
	b.Span("act", act)
	b.Keep(held...)
	b.Span("mlp", first)
	return out
}

// t5Config splits feed_forward_proj ("relu", "gated-gelu"), whose gated-gelu means gelu_new; is_gated_act and dense_act_fn, which
// follow from it, win where a config has them. tie_word_embeddings says whether the decoder's output is scaled.
func t5Config(c *Config, s *spec.Spec) {
	switch v := c.Get("num_layers"); { // num_hidden_layers, which is set later, leaves the decoder alone
	case v == nil || c.Given("decoder_L"):
	case v == c.Spec["L"]:
		s.DecoderL = s.L
	default:
		c.Value(s, spec.FieldOf("decoder_L"), v)
	}
	if v := c.Get("tie_word_embeddings"); v != nil && v.Value == "false" {
		s.LogitScale = false // scale_decoder_outputs; the head is tied all the same
		c.Spec["logit_scale"] = v
	}
	v := c.Get("feed_forward_proj")
	if v == nil {
		return
	}
	act, gated := strings.CutPrefix(v.Value, "gated-")
	if !c.Given("gated") {
		s.Gated = gated
		c.Spec["gated"] = v
	}
	if gated && act == "gelu" {
		act = "gelu_new"
	}
	if c.Given("activation") {
		return
	}
	word, problem := spec.Choose(spec.FieldOf("activation"), act)
	if problem != "" {
		c.At(v, "feed_forward_proj: %s", problem)
	}
	s.Activation = word
	c.Spec["activation"] = v
}

// t5ToConfig sets what follows from feed_forward_proj as itself, by keys, and the scale of the decoder's output:
// feed_forward_proj cannot say it all, since its gated-gelu is gelu_new.
func t5ToConfig(s *spec.Spec, config map[string]any) { config["tie_word_embeddings"] = s.LogitScale }

func t5Linears(s *spec.Spec) []string {
	if s.Gated {
		return []string{"q", "k", "v", "o", "wi_0", "wi_1", "wo"}
	}
	return []string{"q", "k", "v", "o", "wi", "wo"}
}

func t5Problems(s *spec.Spec, add func(key, format string, args ...any)) {
	if s.WeightType() == dtype.F16 {
		add("dtype", "dtype fp16: T5 keeps wo in fp32 when it is loaded so, which is not modelled: use bf16, fp32 or amp")
	}
}
