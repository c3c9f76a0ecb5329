package class

import (
	"strings"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// classifying is a decoder with the heads that transformers writes once for all of them: a label for the sequence, which its last
// token gives (also of reward models), and a label for every token.
// Source: transformers/modeling_layers.py, GenericForSequenceClassification, GenericForTokenClassification.
func classifying(c Class, suffixes ...string) Class {
	name := strings.TrimSuffix(c.Heads[0], "ForCausalLM")
	for _, s := range suffixes {
		c.Heads = append(c.Heads, name+s)
	}
	c.Only = Concat(c.Only, []hfOnly{{"problem_type", "single_label_classification"}})
	c.varies = Concat(c.varies, []string{"labels", "labels_of", "dropout.classifier"})
	c.autoOf, c.causal = decoderAuto, true
	derive, encode, defaults := c.Derive, c.encode, c.Defaults
	c.Derive = func(f *Config, s *spec.Spec) {
		if derive != nil {
			derive(f, s)
		}
		decoderLabels(f, s)
	}
	c.encode = func(s *spec.Spec, config map[string]any) {
		if encode != nil {
			encode(s, config)
		}
		if s.Labels > 0 {
			config["num_labels"], config["pad_token_id"] = s.Labels, 0
			config["classifier_dropout"] = real64(s.Dropout.Classifier)
		}
	}
	c.Defaults = func(s *spec.Spec, given func(key string) bool) {
		if defaults != nil {
			defaults(s, given)
		}
		if s.LabelsOf == "tokens" && !given("dropout.classifier") {
			s.Dropout.Classifier = tokenDropout
		}
	}
	return c
}

const (
	forSequences = "ForSequenceClassification"
	forTokens    = "ForTokenClassification"
)

// tokenDropout is the dropout before a token's label where the configuration has none.
const tokenDropout = .1

// decoderLabels reads the head that architectures names.
func decoderLabels(c *Config, s *spec.Spec) {
	if a := c.Architectures(); len(a) == 0 || strings.HasSuffix(strings.ToLower(a[0].Value), "forcausallm") || !c.head(s) {
		return
	}
	if s.LabelsOf != "tokens" {
		return
	}
	for _, name := range []string{"classifier_dropout", "hidden_dropout"} {
		if v := c.Get(name); v != nil {
			c.Spec["dropout.classifier"] = v
			c.Value(s, spec.FieldOf("dropout.classifier"), v)
			return
		}
	}
}

func decoderAuto(s *spec.Spec) string {
	if s.Labels == 0 {
		return "AutoModelForCausalLM"
	}
	return bertAuto(s)
}

// decoderHead is the language model's head, or one of a classifier, over the last norm's output x [B, S, H].
func (b Forward) decoderHead(x, table, ids, labels graph.TensorID, name string) {
	switch s := b.Spec; {
	case s.Labels == 0:
		b.LmHead(x, table, name, labels)
	case s.LabelsOf == "tokens":
		b.tokenLabels(x, labels)
	default:
		b.sequenceLabel(x, ids, labels)
	}
}

// tokenLabels is dropout and a linear layer on every token, and the loss in fp32.
func (b Forward) tokenLabels(x, labels graph.TensorID) {
	s := b.Spec
	tokens, h, classes := int64(s.B)*int64(s.S), int64(s.H), int64(s.Labels)
	y := b.Dropout(x, s.Dropout.Classifier)
	logits := b.Linear(y, b.Weight("score.weight", classes, h), b.Weight("score.bias", classes))
	b.KeepLogits(logits)
	up := b.To(b.Reshape(logits, tokens, classes), dtype.F32)
	b.G.StorageOf(up).Role = graph.Logits
	b.G.Loss = b.CrossEntropy(up, b.Reshape(labels, tokens))
	b.Keep(x, y, up)
}

// sequenceLabel is a linear layer on every token, of which the last one that is no padding counts.
func (b Forward) sequenceLabel(x, ids, labels graph.TensorID) {
	s := b.Spec
	n, seq, h, classes := int64(s.B), int64(s.S), int64(s.H), int64(s.Labels)
	scores := b.Linear(x, b.Weight("score.weight", classes, h), graph.None)
	isToken := b.Plain("aten._to_copy", dtype.I32, graph.Shape(n, seq), b.Plain("aten.ne", dtype.Bool, graph.Shape(n, seq), ids))
	indices := b.Plain("aten.arange", dtype.I32, graph.Shape(seq))
	last := b.Plain("aten.argmax", dtype.I64, graph.Shape(n), b.Plain("aten.mul", dtype.I32, graph.Shape(n, seq), indices, isToken))
	rows := b.Plain("aten.arange", dtype.I64, graph.Shape(n))
	b.Emit(graph.OpIndex, graph.Attr{}, scores, rows, last)
	pooled := b.Fresh(b.Tensor(scores).DType, graph.Shape(n, classes), graph.Dims{})
	b.KeepLogits(pooled)
	b.G.Loss = b.CrossEntropy(b.Reshape(pooled, n, classes), labels)
	b.Keep(x, scores, isToken, indices, last)
}
