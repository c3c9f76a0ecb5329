package model

var qwen3 = class{
	arch: "qwen3", heads: []string{"Qwen3ForCausalLM"},
	modules: attnFirst,
	spec: Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFN: 22016, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre",
		QKNorm: true, Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	keys:    concat(sizeKeys, groupKeys, tiedKey, attnBias, typedKeys),
	forward: forward.llama,
	linears: gatedLinears,
	targets: qvTargets,
	derive:  qwenWindow,
	encode:  qwenToConfig,
	parts:   gatedParts,
}
