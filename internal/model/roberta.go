package model

var roberta = class{
	arch: "roberta", heads: []string{"RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification", "RobertaForQuestionAnswering"},
	spec: Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 50265, MaxS: 512, Types: 2, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
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
	offset:    2,
	parts:     bertParts,
	autoOf:    bertAuto,
}
