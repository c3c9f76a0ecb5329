package class

import "ckptplan/internal/model/spec"

var mistral = classifying(Class{
	Arch: "mistral", Heads: []string{"MistralForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocab: 32000, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, SlidingWindow: 4096,
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, slidingKeys),
	Forward: Forward.llama,
	Linears: gatedLinears,
	Targets: qvTargets,
	parts:   gatedParts,
}, forSequences, forTokens)
