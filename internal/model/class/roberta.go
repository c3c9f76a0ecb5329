package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
)

var roberta = Class{
	Arch: "roberta", Heads: []string{"RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification", "RobertaForQuestionAnswering"},
	Spec: spec.Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 50265, MaxS: 512, Types: 2, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
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
	Offset:    2,
	parts:     bertParts,
	autoOf:    bertAuto,
}
