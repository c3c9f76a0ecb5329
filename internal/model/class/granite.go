package class

import "ckptplan/internal/model/spec"

var granite = Class{
	Arch: "granite", Heads: []string{"GraniteForCausalLM"}, Wide: true,
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 32000, MaxS: 2048, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, LogitScale: true,
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias),
	Forward: Forward.granite,
	Linears: gatedLinears,
	Targets: qvTargets,
	encode:  graniteToConfig,
	parts:   gatedParts,
}

func graniteToConfig(s *spec.Spec, config map[string]any) {
	if s.LogitScale {
		config["logits_scaling"] = real64(8)
	}
}

// granite is GraniteForCausalLM: Llama with constant multipliers.
// Source: transformers/models/granite/modeling_granite.py.
func (b Forward) granite() {
	d := llamaClass()
	d.scaled = true
	b.decoder(d)
}
