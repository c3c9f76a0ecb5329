package class

import "ckptplan/internal/model/spec"

var qwen3 = classifying(Class{
	Arch: "qwen3", Heads: []string{"Qwen3ForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFN: 22016, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre",
		QKNorm: true, Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, attnBias, typedKeys),
	Forward: Forward.llama,
	Linears: gatedLinears,
	Targets: qvTargets,
	Derive:  qwenWindow,
	encode:  qwenToConfig,
	parts:   gatedParts,
}, forSequences, forTokens)
