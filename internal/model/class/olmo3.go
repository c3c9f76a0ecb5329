package class

import (
	"ckptplan/internal/model/spec"
)

var olmo3 = classifying(Class{
	Arch: "olmo3", Own: []string{"norm"}, Heads: []string{"Olmo3ForCausalLM"}, Wide: true,
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 50304, MaxS: 2048, Norm: "rmsnorm", NormOrder: "post", QKNorm: true,
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, SlidingWindow: 4096,
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, attnBias, typedKeys),
	Forward: Forward.olmo3, KeepsWindow: true,
	Linears:   gatedLinears,
	Targets:   qvTargets,
	Constants: olmo2.Constants,
	Defaults:  slideBut(4),
	parts:     olmo2.parts,
}, forSequences)

// olmo3 is Olmo3ForCausalLM: OLMo 2 with a window in three layers of four, and rotary tables in the activations' type.
// Source: transformers/models/olmo3/modeling_olmo3.py.
func (b Forward) olmo3() {
	d := olmoClass()
	d.floatTable = false
	b.decoder(d)
}
