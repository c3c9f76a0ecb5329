package class

import (
	"cmp"
	"strconv"
	"strings"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var bert = Class{
	Arch: "bert", Heads: []string{"BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification", "BertForQuestionAnswering"},
	Spec: spec.Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 30522, MaxS: 512, Types: 2, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
		Positions: "learned", Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
		Dropout: spec.Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
	},
	Keys: Concat(sizeKeys, tiedKey, bertDropouts, []hfKey{{"type_vocab_size", "token_types"}}),
	Only: Concat(bertOnly, []hfOnly{{"problem_type", "single_label_classification"}}), varies: []string{"labels", "labels_of", "dropout.classifier"},
	Forward:   Forward.bert,
	Linears:   []string{"query", "key", "value", "dense"},
	Targets:   []string{"query", "value"},
	Constants: build.Constants{LayerNormEps: 1e-12},
	Derive:    bertConfig,
	encode:    bertToConfig,
	Defaults:  bertDefaults,
	parts:     bertParts,
	autoOf:    bertAuto,
}

// bert is BertForMaskedLM and RobertaForMaskedLM, which differ in their position ids and in names, and with labels
// BertForSequenceClassification and RobertaForSequenceClassification, which differ in their heads, or with labels of
// tokens the classes ForTokenClassification and ForQuestionAnswering.
// Source: transformers/models/bert/modeling_bert.py, roberta/modeling_roberta.py.
func (b Forward) bert() {
	s := b.Spec
	e := b.bertModel()
	switch {
	case s.Labels == 0:
		b.bertMaskedLM(e.x, e.words, e.labels)
	case s.LabelsOf == "tokens":
		b.bertTokenClassifier(e.x, e.labels)
	case s.LabelsOf == "span":
		b.bertSpan(e.x)
	case b.Class.Offset > 0:
		b.denseClassifier(e.x, e.labels, "tanh")
	default:
		b.bertClassifier(e.x, e.embedded, e.labels)
	}
}

// encoded is what a head reads: the last layer's output, and of the model below the embeddings' output, the table of words
// and the labels.
type encoded struct{ x, embedded, words, labels graph.TensorID }

// bertModel is BertModel without its pooler. ELECTRA's embeddings may be narrower than its layers.
func (b Forward) bertModel() encoded {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	width := int64(cmp.Or(s.EmbedDim, s.H))
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.labels()
	table := b.Static("position_ids", graph.Buffer, dtype.I64, graph.Shape(1, int64(s.MaxS)))
	types := b.Static("token_type_ids", graph.Buffer, dtype.I64, graph.Shape(1, int64(s.MaxS)))

	b.Begin("embedding", graph.None)
	p := b.Class.base() + "."
	words := b.Weight(p+"embeddings.word_embeddings.weight", int64(s.Vocab), width)
	x := b.bertEmbeddings(p+"embeddings.", words, ids, table, types)
	if width != h {
		x = b.Project(p, "embeddings_project", x, width, h, true)
	}
	embedded := x
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.bertLayer(p+"encoder.layer."+strconv.Itoa(i)+".", x)
	}
	b.Keep(embedded)

	b.Begin("head", graph.None)
	return encoded{x, embedded, words, labels}
}

// labels are one for each token, or for each sequence of a classifier; a span has its own.
func (b Forward) labels() graph.TensorID {
	s := b.Spec
	switch {
	case s.LabelsOf == "span":
		return graph.None
	case s.Labels > 0 && s.LabelsOf != "tokens":
		return b.Static("labels", graph.Input, dtype.I64, graph.Shape(int64(s.B)))
	}
	return b.Static("labels", graph.Input, dtype.I64, graph.Shape(int64(s.B), int64(s.S)))
}

// classify is the linear layer on a pooled sequence, and the loss.
func (b Forward) classify(pooled, labels graph.TensorID) {
	n, classes := int64(b.Spec.B), int64(b.Spec.Labels)
	logits := b.Linear(pooled, b.Weight("classifier.weight", classes, int64(b.Spec.H)), b.Weight("classifier.bias", classes))
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, n, classes), labels)
	b.Keep(pooled)
}

// bertClassifier is the pooler (dense and tanh on the first token) and a linear layer on it. The pooler is a part of
// BertModel, whose forward still holds the embeddings' output.
func (b Forward) bertClassifier(x, embedded, labels graph.TensorID) {
	h := int64(b.Spec.H)
	y := b.Project("bert.pooler.", "dense", b.Pick(x, 1, 0), h, h, true)
	pooled := b.Unary(graph.OpTanh, y)
	b.Keep(embedded)
	b.classify(b.Dropout(pooled, b.Spec.Dropout.Classifier), labels)
	b.Keep(x, pooled)
}

// bertTokenClassifier is a linear layer on every token's output.
func (b Forward) bertTokenClassifier(x, labels graph.TensorID) {
	s := b.Spec
	tokens, h, classes := int64(s.B)*int64(s.S), int64(s.H), int64(s.Labels)
	y := b.Dropout(x, s.Dropout.Classifier)
	logits := b.Linear(y, b.Weight("classifier.weight", classes, h), b.Weight("classifier.bias", classes))
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, tokens, classes), b.Reshape(labels, tokens))
	b.Keep(x, y)
}

// bertSpan is two numbers a token, how likely it is the first and the last of the answer, and the mean of two
// cross-entropies over the sequence.
func (b Forward) bertSpan(x graph.TensorID) {
	s := b.Spec
	n, h := int64(s.B), int64(s.H)
	starts, ends := b.Static("start_positions", graph.Input, dtype.I64, graph.Shape(n)), b.Static("end_positions", graph.Input, dtype.I64, graph.Shape(n))
	logits := b.Linear(x, b.Weight("qa_outputs.weight", 2, h), b.Weight("qa_outputs.bias", 2))
	b.G.StorageOf(logits).Role = graph.Logits
	sides := b.Split(logits, -1, 1, 1)
	for k := range sides {
		sides[k] = b.Contiguous(b.Squeeze(sides[k], 2))
		b.KeepLogits(sides[k])
	}
	starts = b.Plain("aten.clamp", dtype.I64, graph.Shape(n), starts)
	ends = b.Plain("aten.clamp", dtype.I64, graph.Shape(n), ends)
	start := b.CrossEntropy(sides[0], starts)
	end := b.CrossEntropy(sides[1], ends)
	sum := b.Add(start, end)
	b.G.Loss = b.WithScalar(b.MulScalar(sum), 0.5)
	b.Keep(x, logits, starts, ends, start, end)
}

// denseClassifier is RobertaClassificationHead (with tanh) and ElectraClassificationHead (with gelu): the first token, dropout, dense
// and activation, dropout, and the linear layer.
func (b Forward) denseClassifier(x, labels graph.TensorID, activation string) {
	s := b.Spec
	n, h, classes := int64(s.B), int64(s.H), int64(s.Labels)
	y := b.Dropout(b.Pick(x, 1, 0), s.Dropout.Classifier)
	y = b.Activation(activation, b.Project("classifier.", "dense", y, h, h, true))
	y = b.Dropout(y, s.Dropout.Classifier)
	logits := b.Linear(y, b.Weight("classifier.out_proj.weight", classes, h), b.Weight("classifier.out_proj.bias", classes))
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, n, classes), labels)
	b.Keep(x)
}

// bertMaskedLM is dense, activation and norm, then the vocabulary; the loss takes the logits as they are.
func (b Forward) bertMaskedLM(x, words, labels graph.TensorID) {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	bias := b.Weight("lm_head.bias", int64(s.Vocab)) // which the class registers first
	y := b.Project("lm_head.", "dense", x, h, h, true)
	act := s.Activation
	if b.Class.Offset > 0 {
		act = "gelu" // whatever the layers have
	}
	active := b.Activation(act, y)
	y = b.Norm(active, "lm_head.layer_norm", h)
	b.Keep(active)
	if !s.Tied {
		words = b.Weight("lm_head.decoder.weight", int64(s.Vocab), h)
		b.Weight("lm_head.decoder.bias", int64(s.Vocab))
	}
	logits := b.Linear(y, words, bias)
	b.Keep(y)
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, n*seq, int64(s.Vocab)), b.Reshape(labels, n*seq))
	b.Keep(x)
}

// bertEmbeddings adds the token, type and position embeddings and normalises the sum. BERT's position ids are a row of
// a buffer; RoBERTa counts the tokens that are no padding.
func (b Forward) bertEmbeddings(p string, words, ids, table, types graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), b.Tensor(words).Shape.At(-1)
	counts := b.Class.Offset > 0
	pos := b.Slice(table, 1, 0, seq)
	if counts {
		pos = b.WithScalar(b.Plain("aten.add", dtype.I64, graph.Shape(n, seq), ids), 1)
		b.G.Ops[b.Next()-1].Attr.A = 1 // counts tokens
	}
	typeIDs := b.Expand(b.Plain("aten.gather", dtype.I64, b.Tensor(pos).Shape, types, pos), n, seq)
	tok := b.InputRequiresGrad(b.Embedding(words, ids))
	positions := func() graph.TensorID { return b.Weight(p+"position_embeddings.weight", int64(s.MaxS), h) }
	var places graph.TensorID
	if !counts {
		places = positions()
	}
	kinds := b.Weight(p+"token_type_embeddings.weight", int64(s.Types), h)
	scale, shift := b.Weight(p+"LayerNorm.weight", h), b.Weight(p+"LayerNorm.bias", h)
	if counts { // RoBERTa registers the positions last
		places = positions()
	}
	typ := b.Embedding(kinds, typeIDs)
	x := b.Add(tok, typ)
	place := b.Embedding(places, pos)
	x = b.Add(x, place)
	x = b.LayerNorm(x, scale, shift)
	x = b.Dropout(x, s.Dropout.Embedding)
	b.Keep(tok, typ, place, pos, typeIDs)
	return x
}

func (b Forward) bertLayer(p string, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	a := b.bertAttention(p+"attention.", x)
	chunk := b.Next()
	up := b.Project(p+"intermediate.", "dense", a, h, f, s.Bias.MLP)
	act := b.Next()
	y := b.Activation(s.Activation, up)
	z := b.bertOutput(p+"output.", y, a, f, act)
	b.Keep(x, a, y)
	b.Span("mlp", chunk) // feed_forward_chunk, to the norm
	b.EndLayer(first)
	return z
}

func (b Forward) bertAttention(p string, x graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	q := b.Heads(p+"self.", "query", x, h, a, d, s.Bias.QKV)
	k := b.Heads(p+"self.", "key", x, h, a, d, s.Bias.QKV)
	v := b.Heads(p+"self.", "value", x, h, a, d, s.Bias.QKV)
	o := b.Core(q, k, v, build.Attention{Mask: graph.None, Dropout: s.Dropout.Attention, Groups: 1})
	o = b.Contiguous(b.Reshape(o, n, seq, h))
	b.Keep(q, k, v)
	out := b.bertOutput(p+"output.", o, x, h, graph.None)
	b.Keep(x)
	b.Span("attn", first)
	return out
}

// bertOutput is LayerNorm(dropout(dense(x)) + residual); act is where the activation before it starts, or None.
func (b Forward) bertOutput(p string, x, residual graph.TensorID, in int64, act graph.OpID) graph.TensorID {
	s := b.Spec
	h := int64(s.H)
	y := b.Project(p, "dense", x, in, h, true)
	if act >= 0 {
		b.Span("act", act)
	}
	y = b.Dropout(y, s.Dropout.Residual)
	out := b.Norm(b.Add(y, residual), p+"LayerNorm", h)
	b.Keep(x, y, residual)
	return out
}

// bertConfig: another head than the masked language model's has labels, two by default.
func bertConfig(c *Config, s *spec.Spec) {
	if !c.head(s) {
		return
	}
	if v := c.Get("classifier_dropout"); v != nil {
		c.Spec["dropout.classifier"] = v
		c.Value(s, spec.FieldOf("dropout.classifier"), v)
	}
}

func bertDefaults(s *spec.Spec, given func(key string) bool) {
	if s.Labels > 0 && !given("dropout.classifier") {
		s.Dropout.Classifier = s.Dropout.Residual
	}
}

// head reads which head architectures names, and its labels. It is false for the masked language model's.
func (c *Config) head(s *spec.Spec) bool {
	a := c.Architectures()
	if len(a) == 0 || strings.HasSuffix(strings.ToLower(a[0].Value), "formaskedlm") {
		return false
	}
	s.Labels = 2
	for suffix, of := range map[string]string{"ForTokenClassification": "tokens", "ForQuestionAnswering": "span"} {
		if strings.HasSuffix(strings.ToLower(a[0].Value), strings.ToLower(suffix)) {
			s.LabelsOf = of
		}
	}
	c.labels(s)
	return true
}

func bertToConfig(s *spec.Spec, config map[string]any) {
	config["classifier_dropout"] = real64(s.Dropout.Classifier)
	if s.Labels > 0 {
		config["num_labels"] = s.Labels
	}
}

func bertAuto(s *spec.Spec) string {
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
