package model

var granite = class{
	arch: "granite", heads: []string{"GraniteForCausalLM"}, wide: true,
	modules: attnFirst,
	spec: Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 32000, MaxS: 2048, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, LogitScale: true,
	},
	keys:    concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias),
	forward: forward.granite,
	linears: gatedLinears,
	targets: qvTargets,
	encode:  graniteToConfig,
	parts:   gatedParts,
}

func graniteToConfig(s *Spec, config map[string]any) {
	if s.LogitScale {
		config["logits_scaling"] = real64(8)
	}
}

// granite is GraniteForCausalLM: Llama with constant multipliers.
// Source: transformers/models/granite/modeling_granite.py.
func (b forward) granite() {
	d := llamaClass()
	d.scaled = true
	b.decoder(d)
}
