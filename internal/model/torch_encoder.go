package model

import (
	"math"
	"strconv"
)

var torchEncoder = class{
	arch:    "torch-encoder",
	modules: []string{"self_attn.", "linear", "norm", ""}, // nn.TransformerEncoderLayer; a block has norms, attn, mlp
	spec: Spec{
		FFN: 2048, Norm: "layernorm", NormOrder: "post", Activation: "relu", Positions: "none", Bias: allBias,
		Dropout: Dropout{Attention: .1, Residual: .1, MLP: .1},
	},
	varies: []string{
		"norm_order", "need_weights", "causal", "final_norm", "vocab", "labels", "positions", "max_positions", "tied", "bias.qkv", "bias.out", "bias.mlp", "bias.norm", "bias.head",
		"dropout.embedding", "dropout.attention", "dropout.residual", "dropout.mlp",
	},
	forward:  forward.torchEncoder,
	defaults: torchEncoderDefaults,
	problems: torchEncoderProblems,
}

// torchEncoder is a stack of PyTorch's own nn.TransformerEncoderLayer, or with NeedWeights of a hand-written pre-norm
// block around nn.MultiheadAttention:
//
//	x = embedding(ids) * √H; x = dropout(x + positions[:, :S]); x = layer(x) …; logits = head(norm(x))
//
// and cross-entropy over every token. Source: torch/nn/modules/transformer.py, torch/nn/functional.py.
func (b forward) torchEncoder() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	labels := b.static("labels", Input, I64, Shape(n, seq))
	var x TensorID
	embedded := s.Vocab > 0
	if embedded {
		x = b.static("input_ids", Input, I64, Shape(n, seq))
	} else {
		x = b.static("x", Input, b.dtype, Shape(n, seq, h))
	}

	b.begin("embedding", None)
	positions := b.positionTable()
	table := TensorID(None)
	if embedded {
		table = b.weight("embedding.weight", int64(s.Vocab), h)
		x = b.withScalar(b.mulScalar(b.embedding(table, x)), math.Sqrt(float64(h)))
	}
	sum := x
	if positions >= 0 {
		sum = b.add(x, b.slice(positions, 1, 0, seq))
	}
	y := b.dropout(sum, s.Dropout.Embedding)
	b.keep(x)
	x = y
	mask := TensorID(None)
	if s.Causal {
		full := b.plain("aten.full", b.dtype, Shape(seq, seq))
		mask = b.plain("aten.triu", b.dtype, Shape(seq, seq), full)
	}

	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		if s.NeedWeights {
			x = b.attentionBlock("layers."+strconv.Itoa(i)+".", x, mask)
		} else {
			x = b.encoderLayer("layers."+strconv.Itoa(i)+".", x, mask)
		}
	}

	b.begin("head", None)
	y = x
	if s.FinalNorm {
		y = b.norm(x, "norm", h)
	}
	b.tokenHead(y, table, labels)
	b.keep(x, mask)
}

// positionTable is a learned parameter or a buffer of sines, [1, MaxS, H]; None without positions.
func (b forward) positionTable() TensorID {
	s := b.spec
	switch s.Positions {
	case "learned":
		return b.weight("positions", 1, int64(s.MaxS), int64(s.H))
	case "sinusoidal":
		return b.static("positions", Buffer, b.dtype, Shape(1, int64(s.MaxS), int64(s.H)))
	}
	return None
}

// tokenHead is cross-entropy over every token of a linear head with Labels classes, or Vocab.
func (b forward) tokenHead(x, table, labels TensorID) {
	s := b.spec
	classes := int64(s.Labels)
	if classes == 0 {
		classes = int64(s.Vocab)
	}
	w := table
	if !s.Tied || table < 0 {
		w = b.weight("head.weight", classes, int64(s.H))
	}
	bias := TensorID(None)
	if s.Bias.Head {
		bias = b.weight("head.bias", classes)
	}
	logits := b.linear(x, w, bias)
	b.keep(x)
	b.keepLogits(logits)
	count := b.tensor(logits).Shape.Count() / classes
	b.g.Loss = b.crossEntropy(b.reshape(logits, count, classes), b.reshape(labels, count))
}

// encoderLayer is nn.TransformerEncoderLayer in training.
func (b forward) encoderLayer(p string, in, mask TensorID) TensorID {
	s := b.spec
	h := int64(s.H)
	first := b.next()
	x := in
	attend := func(y TensorID) TensorID {
		a := b.multiheadAttention(p+"self_attn.", y, mask)
		b.keep(y)
		d := b.dropout(a, s.Dropout.Residual)
		b.keep(a)
		return d
	}
	if s.NormOrder == "pre" {
		x = b.add(x, attend(b.norm(x, p+"norm1", h)))
		norm := b.next()
		x = b.add(x, b.feedForward(p+"linear1", p+"linear2", norm, b.norm(x, p+"norm2", h)))
	} else {
		x = b.norm(b.add(x, attend(x)), p+"norm1", h)
		y := b.norm(b.add(x, b.feedForward(p+"linear1", p+"linear2", None, x)), p+"norm2", h)
		b.keep(x)
		x = y
	}
	b.keep(in)
	b.endLayer(first)
	return x
}

// attentionBlock is the block that people write around nn.MultiheadAttention, whose need_weights stays True:
//
//	h = norm1(x); a, _ = attn(h, h, h, attn_mask=mask); x = x + a; return x + mlp(norm2(x))
func (b forward) attentionBlock(p string, in, mask TensorID) TensorID {
	h := int64(b.spec.H)
	first := b.next()
	y := b.norm(in, p+"norm1", h)
	a := b.multiheadAttention(p+"attn.", y, mask)
	x := b.add(in, a)
	norm := b.next()
	out := b.add(x, b.feedForward(p+"mlp.0", p+"mlp.2", norm, b.norm(x, p+"norm2", h)))
	b.keep(in, y, a)
	b.endLayer(first)
	return out
}

// feedForward is dropout(linear2(dropout(act(linear1(x))))).
func (b forward) feedForward(up, down string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	project := func(name string, x TensorID, in, out int64) TensorID {
		w, bias := b.weight(name+".weight", out, in), TensorID(None)
		if s.Bias.MLP {
			bias = b.weight(name+".bias", out)
		}
		y := b.linear(x, w, bias)
		b.keep(x)
		return y
	}
	first := b.next()
	u := project(up, x, h, f)
	if norm != None {
		b.span("norm2", norm)
	}
	act := b.next()
	a := b.activation(s.Activation, u)
	y := b.dropout(a, s.Dropout.MLP)
	o := project(down, y, f, h)
	b.span("act", act)
	b.keep(x) // the frame of _ff_block
	out := b.dropout(o, s.Dropout.Residual)
	b.keep(o)
	if s.NeedWeights {
		b.keep(x) // the arguments of a module of its own
	}
	b.span("mlp", first)
	return out
}

// multiheadAttention is nn.MultiheadAttention with batch_first on one input: SDPA, or the product of softmax and value
// withScalar hand when it returns its weights. A causal hint replaces the mask in SDPA only.
func (b forward) multiheadAttention(p string, x, mask TensorID) TensorID {
	s := b.spec
	first := b.next()
	b.argument(mask)
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.H/s.Heads)
	w, bias := b.weight(p+"in_proj_weight", 3*h, h), TensorID(None)
	if s.Bias.QKV {
		bias = b.weight(p+"in_proj_bias", 3*h)
	}
	ow, ob := b.weight(p+"out_proj.weight", h, h), TensorID(None)
	if s.Bias.Out {
		ob = b.weight(p+"out_proj.bias", h)
	}
	t := b.transpose(x, 0, 1)
	proj := b.reshape(b.linear(t, w, bias), seq, n, 3, h)
	packed := b.contiguous(b.squeeze(b.transpose(b.unsqueeze(proj, 0), 0, 3), 3))
	var qkv [3]TensorID
	for i := range qkv {
		qkv[i] = b.pick(packed, 0, i)
	}
	for i := range qkv {
		qkv[i] = b.transpose(b.reshape(qkv[i], seq, n*a, d), 0, 1)
	}
	var o TensorID
	if s.NeedWeights {
		o = b.attentionByHand(qkv[0], qkv[1], qkv[2], mask)
	} else {
		for i := range qkv {
			qkv[i] = b.reshape(qkv[i], n, a, seq, d)
		}
		start := b.next()
		o = b.dotProduct(qkv[0], qkv[1], qkv[2], attention{mask: None, dropout: s.Dropout.Attention, causal: s.Causal, groups: 1})
		b.span("core", start)
		o = b.transpose(b.transpose(o, 0, 2), 1, 2)
	}
	o = b.reshape(o, seq*n, h)
	out := b.linear(o, ow, ob)
	b.keep(o, x)
	out = b.reshape(out, seq, n, h)
	if s.NeedWeights {
		b.weights = b.plain("aten.mean", b.tensor(b.weights).DType, Shape(n, seq, seq), b.weights)
		b.keep(packed) // q is not deleted as k and v are
	}
	out = b.transpose(out, 0, 1)
	b.span("attn", first)
	return out
}

// attentionByHand is the need_weights path on [B·a, S, D]; the weights are left in b.weights.
func (b forward) attentionByHand(q, k, v, mask TensorID) TensorID {
	scaled := b.withScalar(b.mulScalar(q), headScale(b.tensor(q)))
	lq, lk := b.castLow(scaled), b.castLow(b.transpose(k, 1, 2))
	var scores TensorID
	if mask >= 0 {
		scores = b.bmmAdd(b.castLow(b.unsqueeze(mask, 0)), lq, lk)
	} else {
		scores = b.bmm(lq, lk)
	}
	b.keep(scaled, lq, lk)
	w := b.softmaxAuto(scores)
	b.keep(scores)
	w = b.dropout(w, b.spec.Dropout.Attention)
	lw, lv := b.castLow(w), b.castLow(v)
	o := b.bmm(lw, lv)
	b.keep(lw, lv, q, v, w)
	b.weights = w
	return b.transpose(o, 0, 1)
}

// bmmAdd is baddbmm(c, x, y) = c + x·y.
func (b forward) bmmAdd(c, x, y TensorID) TensorID {
	sx, sy, dt := b.tensor(x).Shape, b.tensor(y).Shape, b.tensor(x).DType
	b.emit(OpBMMAdd, Attr{}, c, x, y)
	return b.fresh(dt, Shape(sx.D[0], sx.D[1], sy.D[2]), Dims{})
}

// tutorialVocab is the vocabulary of PyTorch's language-modelling tutorial (WikiText-2), for an encoder that names
// neither tokens nor classes.
const tutorialVocab = 28782

func torchEncoderDefaults(s *Spec, given func(string) bool) {
	if s.Vocab == 0 && s.Labels == 0 && !given("vocab") {
		s.Vocab = tutorialVocab
	}
}

func torchEncoderProblems(s *Spec, add func(key, format string, args ...any)) {
	if s.Activation != "relu" && s.Activation != "gelu" {
		add("activation", "activation %s: nn.TransformerEncoderLayer has relu and gelu", s.Activation)
	}
}
