package model

import (
	"strconv"
	"strings"
)

var bert = class{
	arch: "bert", heads: []string{"BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification", "BertForQuestionAnswering"},
	spec: Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 30522, MaxS: 512, Types: 2, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
		Positions: "learned", Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
		Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
	},
	keys: concat(sizeKeys, tiedKey, bertDropouts, []hfKey{{"type_vocab_size", "token_types"}}),
	only: concat(bertOnly, []hfOnly{{"problem_type", "single_label_classification"}}), varies: []string{"labels", "labels_of", "dropout.classifier"},
	forward:   forward.bert,
	linears:   []string{"query", "key", "value", "dense"},
	targets:   []string{"query", "value"},
	constants: Constants{LayerNormEps: 1e-12},
	derive:    bertConfig,
	encode:    bertToConfig,
	parts:     bertParts,
	autoOf:    bertAuto,
}

// bert is BertForMaskedLM and RobertaForMaskedLM, which differ in their position ids and in names, and with labels
// BertForSequenceClassification and RobertaForSequenceClassification, which differ in their heads, or with labels of
// tokens the classes ForTokenClassification and ForQuestionAnswering.
// Source: transformers/models/bert/modeling_bert.py, roberta/modeling_roberta.py.
func (b forward) bert() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	target := Shape(n, seq)
	if s.Labels > 0 && s.LabelsOf != "tokens" {
		target = Shape(n)
	}
	labels := TensorID(None)
	if s.LabelsOf != "span" {
		labels = b.static("labels", Input, I64, target)
	}
	table := b.static("position_ids", Buffer, I64, Shape(1, int64(s.MaxS)))
	types := b.static("token_type_ids", Buffer, I64, Shape(1, int64(s.MaxS)))

	b.begin("embedding", None)
	p := s.Arch + "."
	words := b.weight(p+"embeddings.word_embeddings.weight", int64(s.Vocab), h)
	x := b.bertEmbeddings(p+"embeddings.", words, ids, table, types)
	embedded := x
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.bertLayer(p+"encoder.layer."+strconv.Itoa(i)+".", x)
	}
	b.keep(embedded)

	b.begin("head", None)
	switch {
	case s.Labels == 0:
		b.bertMaskedLM(x, words, labels)
	case s.LabelsOf == "tokens":
		b.bertTokenClassifier(x, labels)
	case s.LabelsOf == "span":
		b.bertSpan(x)
	case s.Arch == "roberta":
		b.robertaClassifier(x, labels)
	default:
		b.bertClassifier(x, embedded, labels)
	}
}

// bertClassifier is the pooler (dense and tanh on the first token) and a linear layer on it. The pooler is a part of
// BertModel, whose forward still holds the embeddings' output.
func (b forward) bertClassifier(x, embedded, labels TensorID) {
	s := b.spec
	n, h, classes := int64(s.B), int64(s.H), int64(s.Labels)
	y := b.project("bert.pooler.", "dense", b.pick(x, 1, 0), h, h, true)
	pooled := b.unary(OpTanh, y)
	b.keep(embedded)
	dropped := b.dropout(pooled, s.Dropout.Classifier)
	logits := b.linear(dropped, b.weight("classifier.weight", classes, h), b.weight("classifier.bias", classes))
	b.keepLogits(logits)
	b.g.Loss = b.crossEntropy(b.reshape(logits, n, classes), labels)
	b.keep(x, pooled, dropped)
}

// bertTokenClassifier is a linear layer on every token's output.
func (b forward) bertTokenClassifier(x, labels TensorID) {
	s := b.spec
	tokens, h, classes := int64(s.B)*int64(s.S), int64(s.H), int64(s.Labels)
	y := b.dropout(x, s.Dropout.Classifier)
	logits := b.linear(y, b.weight("classifier.weight", classes, h), b.weight("classifier.bias", classes))
	b.keepLogits(logits)
	b.g.Loss = b.crossEntropy(b.reshape(logits, tokens, classes), b.reshape(labels, tokens))
	b.keep(x, y)
}

// bertSpan is two numbers a token, how likely it is the first and the last of the answer, and the mean of two
// cross-entropies over the sequence.
func (b forward) bertSpan(x TensorID) {
	s := b.spec
	n, h := int64(s.B), int64(s.H)
	starts, ends := b.static("start_positions", Input, I64, Shape(n)), b.static("end_positions", Input, I64, Shape(n))
	logits := b.linear(x, b.weight("qa_outputs.weight", 2, h), b.weight("qa_outputs.bias", 2))
	b.g.storageOf(logits).Role = Logits
	sides := b.split(logits, -1, 1, 1)
	for k := range sides {
		sides[k] = b.contiguous(b.squeeze(sides[k], 2))
		b.keepLogits(sides[k])
	}
	starts = b.plain("aten.clamp", I64, Shape(n), starts)
	ends = b.plain("aten.clamp", I64, Shape(n), ends)
	start := b.crossEntropy(sides[0], starts)
	end := b.crossEntropy(sides[1], ends)
	sum := b.add(start, end)
	b.g.Loss = b.withScalar(b.mulScalar(sum), 0.5)
	b.keep(x, logits, starts, ends, start, end)
}

// robertaClassifier is RobertaClassificationHead, which has a pooler of its own, with a dropout before it and one behind it.
func (b forward) robertaClassifier(x, labels TensorID) {
	s := b.spec
	n, h, classes := int64(s.B), int64(s.H), int64(s.Labels)
	y := b.dropout(b.pick(x, 1, 0), s.Dropout.Classifier)
	y = b.unary(OpTanh, b.project("classifier.", "dense", y, h, h, true))
	y = b.dropout(y, s.Dropout.Classifier)
	logits := b.linear(y, b.weight("classifier.out_proj.weight", classes, h), b.weight("classifier.out_proj.bias", classes))
	b.keepLogits(logits)
	b.g.Loss = b.crossEntropy(b.reshape(logits, n, classes), labels)
	b.keep(x)
}

// bertMaskedLM is dense, activation and norm, then the vocabulary; the loss takes the logits as they are.
func (b forward) bertMaskedLM(x, words, labels TensorID) {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	bias := b.weight("lm_head.bias", int64(s.Vocab)) // which the class registers first
	y := b.project("lm_head.", "dense", x, h, h, true)
	act := s.Activation
	if s.Arch == "roberta" {
		act = "gelu" // whatever the layers have
	}
	active := b.activation(act, y)
	y = b.norm(active, "lm_head.layer_norm", h)
	b.keep(active)
	if !s.Tied {
		words = b.weight("lm_head.decoder.weight", int64(s.Vocab), h)
		b.weight("lm_head.decoder.bias", int64(s.Vocab))
	}
	logits := b.linear(y, words, bias)
	b.keep(y)
	b.keepLogits(logits)
	b.g.Loss = b.crossEntropy(b.reshape(logits, n*seq, int64(s.Vocab)), b.reshape(labels, n*seq))
	b.keep(x)
}

// bertEmbeddings adds the token, type and position embeddings and normalises the sum. BERT's position ids are a row of
// a buffer; RoBERTa counts the tokens that are no padding.
func (b forward) bertEmbeddings(p string, words, ids, table, types TensorID) TensorID {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	pos := b.slice(table, 1, 0, seq)
	if s.Arch == "roberta" {
		pos = b.withScalar(b.plain("aten.add", I64, Shape(n, seq), ids), 1)
		b.g.Ops[b.next()-1].Attr.A = 1 // counts tokens
	}
	typeIDs := b.expand(b.plain("aten.gather", I64, b.tensor(pos).Shape, types, pos), n, seq)
	tok := b.inputRequiresGrad(b.embedding(words, ids))
	positions := func() TensorID { return b.weight(p+"position_embeddings.weight", int64(s.MaxS), h) }
	var places TensorID
	if s.Arch != "roberta" {
		places = positions()
	}
	kinds := b.weight(p+"token_type_embeddings.weight", int64(s.Types), h)
	scale, shift := b.weight(p+"LayerNorm.weight", h), b.weight(p+"LayerNorm.bias", h)
	if s.Arch == "roberta" { // which registers the positions last
		places = positions()
	}
	typ := b.embedding(kinds, typeIDs)
	x := b.add(tok, typ)
	place := b.embedding(places, pos)
	x = b.add(x, place)
	x = b.layerNorm(x, scale, shift)
	x = b.dropout(x, s.Dropout.Embedding)
	b.keep(tok, typ, place, pos, typeIDs)
	return x
}

func (b forward) bertLayer(p string, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	a := b.bertAttention(p+"attention.", x)
	chunk := b.next()
	up := b.project(p+"intermediate.", "dense", a, h, f, s.Bias.MLP)
	act := b.next()
	y := b.activation(s.Activation, up)
	z := b.bertOutput(p+"output.", y, a, f, act)
	b.keep(x, a, y)
	b.span("mlp", chunk) // feed_forward_chunk, to the norm
	b.endLayer(first)
	return z
}

func (b forward) bertAttention(p string, x TensorID) TensorID {
	s := b.spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.next()
	q := b.heads(p+"self.", "query", x, h, a, d, s.Bias.QKV)
	k := b.heads(p+"self.", "key", x, h, a, d, s.Bias.QKV)
	v := b.heads(p+"self.", "value", x, h, a, d, s.Bias.QKV)
	o := b.core(q, k, v, attention{mask: None, dropout: s.Dropout.Attention, groups: 1})
	o = b.contiguous(b.reshape(o, n, seq, h))
	b.keep(q, k, v)
	out := b.bertOutput(p+"output.", o, x, h, None)
	b.keep(x)
	b.span("attn", first)
	return out
}

// bertOutput is LayerNorm(dropout(dense(x)) + residual); act is where the activation before it starts, or None.
func (b forward) bertOutput(p string, x, residual TensorID, in int64, act OpID) TensorID {
	s := b.spec
	h := int64(s.H)
	y := b.project(p, "dense", x, in, h, true)
	if act >= 0 {
		b.span("act", act)
	}
	y = b.dropout(y, s.Dropout.Residual)
	out := b.norm(b.add(y, residual), p+"LayerNorm", h)
	b.keep(x, y, residual)
	return out
}

// bertConfig: another head than the masked language model's has labels, two by default.
func bertConfig(c *config, s *Spec) {
	a := c.architectures()
	if len(a) == 0 || strings.HasSuffix(strings.ToLower(a[0].Value), "formaskedlm") {
		return
	}
	s.Labels = 2
	for suffix, of := range map[string]string{"ForTokenClassification": "tokens", "ForQuestionAnswering": "span"} {
		if strings.HasSuffix(strings.ToLower(a[0].Value), strings.ToLower(suffix)) {
			s.LabelsOf = of
		}
	}
	c.labels(s)
	if v := c.get("classifier_dropout"); v != nil {
		c.spec["dropout.classifier"] = v
		c.value(s, fieldOf("dropout.classifier"), v)
	}
}

func bertToConfig(s *Spec, config map[string]any) {
	config["classifier_dropout"] = real64(s.Dropout.Classifier)
	if s.Labels > 0 {
		config["num_labels"] = s.Labels
	}
}

func bertAuto(s *Spec) string {
	switch {
	case s.Labels == 0:
		return "AutoModelForMaskedLM"
	case s.LabelsOf == "tokens":
		return "AutoModelForTokenClassification"
	case s.LabelsOf == "span":
		return "AutoModelForQuestionAnswering"
	}
	return "AutoModelForSequenceClassification"
}

var bertParts = parts{
	"attn": module("attention"), "mlp": {Kind: "method", At: []string{"feed_forward_chunk"}}, "core": core("attention.self"),
	"act": fan("intermediate.intermediate_act_fn", "output", "dense"),
}
