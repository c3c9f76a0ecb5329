package class

import (
	"math"
	"strconv"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var torchEncoder = Class{
	Arch:    "torch-encoder",
	Modules: []string{"self_attn.", "linear", "norm", ""}, // nn.TransformerEncoderLayer; a block has norms, attn, mlp
	Spec: spec.Spec{
		FFN: 2048, Norm: "layernorm", NormOrder: "post", Activation: "relu", Positions: "none", Bias: allBias,
		Dropout: spec.Dropout{Attention: .1, Residual: .1, MLP: .1},
	},
	varies: []string{
		"norm_order", "need_weights", "causal", "final_norm", "vocab", "labels", "positions", "max_positions", "tied", "bias.qkv", "bias.out", "bias.mlp", "bias.norm", "bias.head",
		"dropout.embedding", "dropout.attention", "dropout.residual", "dropout.mlp",
	},
	Forward:  Forward.torchEncoder,
	Defaults: torchEncoderDefaults,
	Problems: torchEncoderProblems,
}

// torchEncoder is a stack of PyTorch's own nn.TransformerEncoderLayer, or with NeedWeights of a hand-written pre-norm
// block around nn.MultiheadAttention:
//
//	x = embedding(ids) * √H; x = dropout(x + positions[:, :S]); x = layer(x) …; logits = head(norm(x))
//
// and cross-entropy over every token. Source: torch/nn/modules/transformer.py, torch/nn/functional.py.
func (b Forward) torchEncoder() {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n, seq))
	var x graph.TensorID
	embedded := s.Vocab > 0
	if embedded {
		x = b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	} else {
		x = b.Static("x", graph.Input, b.Dtype, graph.Shape(n, seq, h))
	}

	b.Begin("embedding", graph.None)
	positions := b.positionTable()
	table := graph.TensorID(graph.None)
	if embedded {
		table = b.Weight("embedding.weight", int64(s.Vocab), h)
		x = b.WithScalar(b.MulScalar(b.Embedding(table, x)), math.Sqrt(float64(h)))
	}
	sum := x
	if positions >= 0 {
		sum = b.Add(x, b.Slice(positions, 1, 0, seq))
	}
	y := b.Dropout(sum, s.Dropout.Embedding)
	b.Keep(x)
	x = y
	mask := graph.TensorID(graph.None)
	if s.Causal {
		full := b.Plain("aten.full", b.Dtype, graph.Shape(seq, seq))
		mask = b.Plain("aten.triu", b.Dtype, graph.Shape(seq, seq), full)
	}

	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		if s.NeedWeights {
			x = b.attentionBlock("layers."+strconv.Itoa(i)+".", x, mask)
		} else {
			x = b.encoderLayer("layers."+strconv.Itoa(i)+".", x, mask)
		}
	}

	b.Begin("head", graph.None)
	y = x
	if s.FinalNorm {
		y = b.Norm(x, "norm", h)
	}
	b.tokenHead(y, table, labels)
	b.Keep(x, mask)
}

// positionTable is a learned parameter or a buffer of sines, [1, MaxS, H]; None without positions.
func (b Forward) positionTable() graph.TensorID {
	s := b.Spec
	switch s.Positions {
	case "learned":
		return b.Weight("positions", 1, int64(s.MaxS), int64(s.H))
	case "sinusoidal":
		return b.Static("positions", graph.Buffer, b.Dtype, graph.Shape(1, int64(s.MaxS), int64(s.H)))
	}
	return graph.None
}

// tokenHead is cross-entropy over every token of a linear head with Labels classes, or Vocab.
func (b Forward) tokenHead(x, table, labels graph.TensorID) {
	s := b.Spec
	classes := int64(s.Labels)
	if classes == 0 {
		classes = int64(s.Vocab)
	}
	w := table
	if !s.Tied || table < 0 {
		w = b.Weight("head.weight", classes, int64(s.H))
	}
	bias := graph.TensorID(graph.None)
	if s.Bias.Head {
		bias = b.Weight("head.bias", classes)
	}
	logits := b.Linear(x, w, bias)
	b.Keep(x)
	b.KeepLogits(logits)
	count := b.Tensor(logits).Shape.Count() / classes
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, count, classes), b.Reshape(labels, count))
}

// encoderLayer is nn.TransformerEncoderLayer in training.
func (b Forward) encoderLayer(p string, in, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	h := int64(s.H)
	first := b.Next()
	x := in
	attend := func(y graph.TensorID) graph.TensorID {
		a := b.multiheadAttention(p+"self_attn.", y, mask)
		b.Keep(y)
		d := b.Dropout(a, s.Dropout.Residual)
		b.Keep(a)
		return d
	}
	if s.NormOrder == "pre" {
		x = b.Add(x, attend(b.Norm(x, p+"norm1", h)))
		norm := b.Next()
		x = b.Add(x, b.feedForward(p+"linear1", p+"linear2", norm, b.Norm(x, p+"norm2", h)))
	} else {
		x = b.Norm(b.Add(x, attend(x)), p+"norm1", h)
		y := b.Norm(b.Add(x, b.feedForward(p+"linear1", p+"linear2", graph.None, x)), p+"norm2", h)
		b.Keep(x)
		x = y
	}
	b.Keep(in)
	b.EndLayer(first)
	return x
}

// attentionBlock is the block that people write around nn.MultiheadAttention, whose need_weights stays True:
//
//	h = norm1(x); a, _ = attn(h, h, h, attn_mask=mask); x = x + a; return x + mlp(norm2(x))
func (b Forward) attentionBlock(p string, in, mask graph.TensorID) graph.TensorID {
	h := int64(b.Spec.H)
	first := b.Next()
	y := b.Norm(in, p+"norm1", h)
	a := b.multiheadAttention(p+"attn.", y, mask)
	x := b.Add(in, a)
	norm := b.Next()
	out := b.Add(x, b.feedForward(p+"mlp.0", p+"mlp.2", norm, b.Norm(x, p+"norm2", h)))
	b.Keep(in, y, a)
	b.EndLayer(first)
	return out
}

// feedForward is dropout(linear2(dropout(act(linear1(x))))).
func (b Forward) feedForward(up, down string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	project := func(name string, x graph.TensorID, in, out int64) graph.TensorID {
		w, bias := b.Weight(name+".weight", out, in), graph.TensorID(graph.None)
		if s.Bias.MLP {
			bias = b.Weight(name+".bias", out)
		}
		y := b.Linear(x, w, bias)
		b.Keep(x)
		return y
	}
	first := b.Next()
	u := project(up, x, h, f)
	if norm != graph.None {
		b.Span("norm2", norm)
	}
	act := b.Next()
	a := b.Activation(s.Activation, u)
	y := b.Dropout(a, s.Dropout.MLP)
	o := project(down, y, f, h)
	b.Span("act", act)
	b.Keep(x) // the frame of _ff_block
	out := b.Dropout(o, s.Dropout.Residual)
	b.Keep(o)
	if s.NeedWeights {
		b.Keep(x) // the arguments of a module of its own
	}
	b.Span("mlp", first)
	return out
}

// multiheadAttention is nn.MultiheadAttention with batch_first on one input: SDPA, or the product of softmax and value
// withScalar hand when it returns its weights. A causal hint replaces the mask in SDPA only.
func (b Forward) multiheadAttention(p string, x, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	first := b.Next()
	b.Argument(mask)
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.H/s.Heads)
	w, bias := b.Weight(p+"in_proj_weight", 3*h, h), graph.TensorID(graph.None)
	if s.Bias.QKV {
		bias = b.Weight(p+"in_proj_bias", 3*h)
	}
	ow, ob := b.Weight(p+"out_proj.weight", h, h), graph.TensorID(graph.None)
	if s.Bias.Out {
		ob = b.Weight(p+"out_proj.bias", h)
	}
	t := b.Transpose(x, 0, 1)
	proj := b.Reshape(b.Linear(t, w, bias), seq, n, 3, h)
	packed := b.Contiguous(b.Squeeze(b.Transpose(b.Unsqueeze(proj, 0), 0, 3), 3))
	var qkv [3]graph.TensorID
	for i := range qkv {
		qkv[i] = b.Pick(packed, 0, i)
	}
	for i := range qkv {
		qkv[i] = b.Transpose(b.Reshape(qkv[i], seq, n*a, d), 0, 1)
	}
	var o graph.TensorID
	if s.NeedWeights {
		o = b.attentionByHand(qkv[0], qkv[1], qkv[2], mask)
	} else {
		for i := range qkv {
			qkv[i] = b.Reshape(qkv[i], n, a, seq, d)
		}
		start := b.Next()
		o = b.DotProduct(qkv[0], qkv[1], qkv[2], build.Attention{Mask: graph.None, Dropout: s.Dropout.Attention, Causal: s.Causal, Groups: 1})
		b.Span("core", start)
		o = b.Transpose(b.Transpose(o, 0, 2), 1, 2)
	}
	o = b.Reshape(o, seq*n, h)
	out := b.Linear(o, ow, ob)
	b.Keep(o, x)
	out = b.Reshape(out, seq, n, h)
	if s.NeedWeights {
		b.Weights = b.Plain("aten.mean", b.Tensor(b.Weights).DType, graph.Shape(n, seq, seq), b.Weights)
		b.Keep(packed) // q is not deleted as k and v are
	}
	out = b.Transpose(out, 0, 1)
	b.Span("attn", first)
	return out
}

// attentionByHand is the need_weights path on [B·a, S, D]; the weights are left in b.weights.
func (b Forward) attentionByHand(q, k, v, mask graph.TensorID) graph.TensorID {
	scaled := b.WithScalar(b.MulScalar(q), build.HeadScale(b.Tensor(q)))
	lq, lk := b.CastLow(scaled), b.CastLow(b.Transpose(k, 1, 2))
	var scores graph.TensorID
	if mask >= 0 {
		scores = b.bmmAdd(b.CastLow(b.Unsqueeze(mask, 0)), lq, lk)
	} else {
		scores = b.Bmm(lq, lk)
	}
	b.Keep(scaled, lq, lk)
	w := b.SoftmaxAuto(scores)
	b.Keep(scores)
	w = b.Dropout(w, b.Spec.Dropout.Attention)
	lw, lv := b.CastLow(w), b.CastLow(v)
	o := b.Bmm(lw, lv)
	b.Keep(lw, lv, q, v, w)
	b.Weights = w
	return b.Transpose(o, 0, 1)
}

// bmmAdd is baddbmm(c, x, y) = c + x·y.
func (b Forward) bmmAdd(c, x, y graph.TensorID) graph.TensorID {
	sx, sy, dt := b.Tensor(x).Shape, b.Tensor(y).Shape, b.Tensor(x).DType
	b.Emit(graph.OpBMMAdd, graph.Attr{}, c, x, y)
	return b.Fresh(dt, graph.Shape(sx.D[0], sx.D[1], sy.D[2]), graph.Dims{})
}

// tutorialVocab is the vocabulary of PyTorch's language-modelling tutorial (WikiText-2), for an encoder that names
// neither tokens nor classes.
const tutorialVocab = 28782

func torchEncoderDefaults(s *spec.Spec, given func(string) bool) {
	if s.Vocab == 0 && s.Labels == 0 && !given("vocab") {
		s.Vocab = tutorialVocab
	}
}

func torchEncoderProblems(s *spec.Spec, add func(key, format string, args ...any)) {
	if s.Activation != "relu" && s.Activation != "gelu" {
		add("activation", "activation %s: nn.TransformerEncoderLayer has relu and gelu", s.Activation)
	}
}
