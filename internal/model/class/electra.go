package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
)

var electra = electraOf(bert)

func electraOf(c Class) Class {
	c.Arch = "electra"
	c.Heads = []string{"ElectraForMaskedLM", "ElectraForSequenceClassification", "ElectraForTokenClassification", "ElectraForQuestionAnswering"}
	c.Spec.H, c.Spec.Heads, c.Spec.FFN, c.Spec.EmbedDim = 256, 4, 1024, 128
	c.Keys = Concat(bert.Keys, []hfKey{{"embedding_size", "embedding_dim"}})
	c.Forward = Forward.electra
	c.encode = electraToConfig
	c.Constants = build.Constants{LayerNormEps: 1e-12}
	return c
}

// electra is BERT with embeddings of a width of their own, and other heads for words and for sequences.
// Source: transformers/models/electra/modeling_electra.py.
func (b Forward) electra() {
	s := b.Spec
	e := b.bertModel()
	switch {
	case s.Labels == 0:
		b.electraMaskedLM(e)
	case s.LabelsOf == "tokens":
		b.bertTokenClassifier(e.x, e.labels)
	case s.LabelsOf == "span":
		b.bertSpan(e.x)
	default:
		b.denseClassifier(e.x, e.labels, "gelu")
	}
}

// electraMaskedLM is dense to the embeddings' width, gelu and norm, then the vocabulary.
func (b Forward) electraMaskedLM(e encoded) {
	s := b.Spec
	tokens, vocab, width := int64(s.B)*int64(s.S), int64(s.Vocab), b.Tensor(e.words).Shape.At(-1)
	scale, shift := b.Weight("generator_predictions.LayerNorm.weight", width), b.Weight("generator_predictions.LayerNorm.bias", width)
	y := b.Activation("gelu", b.Project("generator_predictions.", "dense", e.x, int64(s.H), width, true))
	y = b.LayerNorm(y, scale, shift)
	words := e.words
	if !s.Tied {
		words = b.Weight("generator_lm_head.weight", vocab, width)
	}
	logits := b.Linear(y, words, b.Weight("generator_lm_head.bias", vocab))
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, tokens, vocab), b.Reshape(e.labels, tokens))
	b.Keep(e.x)
}

func electraToConfig(s *spec.Spec, config map[string]any) {
	bertToConfig(s, config)
	if s.EmbedDim == 0 {
		config["embedding_size"] = s.H
	}
}
