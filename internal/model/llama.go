package model

var llama = class{
	arch: "llama", heads: []string{"LlamaForCausalLM"}, wide: true,
	modules: attnFirst,
	spec: Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 32000, MaxS: 2048, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	keys:    concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias),
	forward: forward.llama,
	linears: gatedLinears,
	targets: qvTargets,
	parts:   gatedParts,
}

func (b forward) llama() { b.decoder(llamaClass()) }
