package class

import (
	"strconv"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var distilbert = Class{
	Arch:  "distilbert",
	Heads: []string{"DistilBertForMaskedLM", "DistilBertForSequenceClassification", "DistilBertForTokenClassification", "DistilBertForQuestionAnswering"},
	Spec: spec.Spec{
		L: 6, H: 768, Heads: 12, FFN: 3072, Vocab: 30522, MaxS: 512, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
		Positions: "learned", Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
		Dropout: spec.Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
	},
	Keys: Concat([]hfKey{
		{"num_hidden_layers", "L"},
		{"hidden_size", "H"},
		{"num_attention_heads", "heads"},
		{"n_layers", "L"},
		{"dim", "H"},
		{"n_heads", "heads"},
		{"hidden_dim", "ffn"},
		{"vocab_size", "vocab"},
		{"max_position_embeddings", "max_positions"},
		{"activation", "activation"},
		{"dropout", "dropout.embedding dropout.residual"},
		{"attention_dropout", "dropout.attention"},
	}, tiedKey),
	Only:      []hfOnly{{"chunk_size_feed_forward", "0"}, {"problem_type", "single_label_classification"}},
	varies:    []string{"labels", "labels_of", "dropout.classifier"},
	Forward:   Forward.distilbert,
	Linears:   []string{"q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"},
	Targets:   []string{"q_lin", "v_lin"},
	Constants: build.Constants{LayerNormEps: 1e-12},
	Derive:    distilbertConfig,
	encode:    distilbertToConfig,
	Defaults:  distilbertDefaults,
	parts: parts{
		"attn": module("attention"), "mlp": {Kind: "method", At: []string{"ffn.ff_chunk"}}, "core": core("attention"),
		"act": fan("ffn.activation", "ffn", "lin2"),
	},
	autoOf: bertAuto,
}

// distilbert is DistilBERT with its heads: BERT's layers without token types, without a dropout behind attention, and with
// a pooler in the classifier. Source: transformers/models/distilbert/modeling_distilbert.py.
func (b Forward) distilbert() {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.labels()
	table := b.Static("position_ids", graph.Buffer, dtype.I64, graph.Shape(1, int64(s.MaxS)))

	b.Begin("embedding", graph.None)
	p := "distilbert.embeddings."
	words := b.Weight(p+"word_embeddings.weight", int64(s.Vocab), h)
	tok := b.InputRequiresGrad(b.Embedding(words, ids))
	place := b.Embedding(b.Weight(p+"position_embeddings.weight", int64(s.MaxS), h), b.Slice(table, 1, 0, seq))
	x := b.Norm(b.Add(tok, place), p+"LayerNorm", h)
	x = b.Dropout(x, s.Dropout.Embedding)
	b.Keep(tok, place)
	embedded := x
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.distilbertLayer("distilbert.transformer.layer."+strconv.Itoa(i)+".", x)
	}
	b.Keep(embedded)

	b.Begin("head", graph.None)
	switch {
	case s.Labels == 0:
		b.distilbertMaskedLM(x, words, labels)
	case s.LabelsOf == "tokens":
		b.bertTokenClassifier(x, labels)
	case s.LabelsOf == "span":
		y := b.Dropout(x, s.Dropout.Classifier)
		b.bertSpan(y)
		b.Keep(x)
	default:
		y := b.Unary(graph.OpRelu, b.Project("", "pre_classifier", b.Pick(x, 1, 0), h, h, true))
		b.classify(b.Dropout(y, s.Dropout.Classifier), labels)
		b.Keep(x)
	}
}

func (b Forward) distilbertLayer(p string, x graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, f, heads, d := int64(s.B), int64(s.S), int64(s.H), int64(s.FFN), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	q := b.Heads(p+"attention.", "q_lin", x, h, heads, d, s.Bias.QKV)
	k := b.Heads(p+"attention.", "k_lin", x, h, heads, d, s.Bias.QKV)
	v := b.Heads(p+"attention.", "v_lin", x, h, heads, d, s.Bias.QKV)
	o := b.Core(q, k, v, build.Attention{Mask: graph.None, Dropout: s.Dropout.Attention, Groups: 1})
	o = b.Contiguous(b.Reshape(o, n, seq, h))
	out := b.Project(p+"attention.", "out_lin", o, h, h, true)
	b.Keep(q, k, v, o)
	b.Span("attn", first)
	a := b.Norm(b.Add(out, x), p+"sa_layer_norm", h)

	chunk := b.Next()
	up := b.Project(p+"ffn.", "lin1", a, h, f, s.Bias.MLP)
	act := b.Next()
	y := b.Project(p+"ffn.", "lin2", b.Activation(s.Activation, up), f, h, true)
	b.Span("act", act)
	y = b.Dropout(y, s.Dropout.Residual)
	b.Keep(a)
	b.Span("mlp", chunk) // ff_chunk
	z := b.Norm(b.Add(y, a), p+"output_layer_norm", h)
	b.Keep(x, a, y)
	b.EndLayer(first)
	return z
}

// distilbertMaskedLM is BERT's, with the bias of the last linear layer as its own.
func (b Forward) distilbertMaskedLM(x, words, labels graph.TensorID) {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	y := b.Activation(s.Activation, b.Project("", "vocab_transform", x, h, h, true))
	y = b.Norm(y, "vocab_layer_norm", h)
	if !s.Tied {
		words = b.Weight("vocab_projector.weight", int64(s.Vocab), h)
	}
	logits := b.Linear(y, words, b.Weight("vocab_projector.bias", int64(s.Vocab)))
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, n*seq, int64(s.Vocab)), b.Reshape(labels, n*seq))
	b.Keep(x)
}

// distilbertDropout is the key of the head's dropout.
func distilbertDropout(s *spec.Spec) string {
	switch s.LabelsOf {
	case "tokens":
		return "dropout"
	case "span":
		return "qa_dropout"
	}
	return "seq_classif_dropout"
}

func distilbertDefaults(s *spec.Spec, given func(key string) bool) {
	if s.Labels == 0 || given("dropout.classifier") {
		return
	}
	switch s.LabelsOf {
	case "tokens":
		s.Dropout.Classifier = s.Dropout.Residual
	case "span":
		s.Dropout.Classifier = .1
	default:
		s.Dropout.Classifier = .2
	}
}

func distilbertConfig(c *Config, s *spec.Spec) {
	if !c.head(s) {
		return
	}
	if v := c.Get(distilbertDropout(s)); v != nil {
		c.Spec["dropout.classifier"] = v
		c.Value(s, spec.FieldOf("dropout.classifier"), v)
	}
}

func distilbertToConfig(s *spec.Spec, config map[string]any) {
	if s.Labels > 0 {
		config["num_labels"] = s.Labels
		if key := distilbertDropout(s); key != "dropout" {
			config[key] = real64(s.Dropout.Classifier)
		}
	}
}
