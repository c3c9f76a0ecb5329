package model

var mistral = class{
	arch: "mistral", heads: []string{"MistralForCausalLM"},
	modules: attnFirst,
	spec: Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocab: 32000, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, SlidingWindow: 4096,
	},
	keys:    concat(sizeKeys, groupKeys, tiedKey, slidingKeys),
	forward: forward.llama,
	linears: gatedLinears,
	targets: qvTargets,
	parts:   gatedParts,
}
