package class

import "ckptplan/internal/model/spec"

var llama = classifying(Class{
	Arch: "llama", Heads: []string{"LlamaForCausalLM"}, Wide: true,
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 32000, MaxS: 2048, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias),
	Forward: Forward.llama,
	Linears: gatedLinears,
	Targets: qvTargets,
	parts:   gatedParts,
}, forSequences, forTokens)

func (b Forward) llama() { b.decoder(llamaClass()) }
