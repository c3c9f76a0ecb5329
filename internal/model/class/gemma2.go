package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
)

var gemma2 = classifying(Class{
	Arch: "gemma2", Own: []string{"norm"}, Heads: []string{"Gemma2ForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 26, H: 2304, Heads: 8, KVHeads: 4, HeadDim: 256, FFN: 9216, Vocab: 256000, MaxS: 8192, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "gelu_tanh", Gated: true, Positions: "rotary", Rotary: 1, Tied: true, SlidingWindow: 4096, LogitSoftcap: true, AttnSoftcap: true,
	},
	Keys:    Concat(sizeKeys[:5], sizeKeys[6:], groupKeys, tiedKey, attnBias, typedKeys, []hfKey{{"hidden_activation", "activation"}}),
	Only:    []hfOnly{{"use_bidirectional_attention", "false"}},
	varies:  []string{"logit_softcap", "attention_softcap"},
	Forward: Forward.gemma2, KeepsWindow: true,
	Linears:  gatedLinears,
	Targets:  qvTargets,
	Derive:   gemma2Config,
	encode:   gemma2ToConfig,
	Defaults: slideBut(2),
	parts:    gatedParts.with(parts{"norm2": fan("pre_feedforward_layernorm", "mlp", "gate_proj", "up_proj")}),
}, forSequences, forTokens)

func gemma2Config(c *Config, s *spec.Spec) {
	s.LogitSoftcap = !c.Null("final_logit_softcapping")
	s.AttnSoftcap = !c.Null("attn_logit_softcapping")
	if !c.Given("layer_types") && s.L <= spec.MaxLayers {
		s.LayerTypes = slidesBut(2, s.L)
	}
}

func gemma2ToConfig(s *spec.Spec, config map[string]any) {
	config["final_logit_softcapping"], config["attn_logit_softcapping"] = nil, nil
	if s.LogitSoftcap {
		config["final_logit_softcapping"] = real64(build.LogitSoftcap)
	}
	if s.AttnSoftcap {
		config["attn_logit_softcapping"] = real64(build.AttnSoftcap)
	}
}

// sandwichNorms are Gemma's names of the norms before and after each sublayer.
var sandwichNorms = [4]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}

// gemma2 has norms before and after each sublayer. Source: transformers/models/gemma2/modeling_gemma2.py.
func (b Forward) gemma2() {
	d := llamaClass()
	d.embed, d.norm = Forward.scaleEmbedding, Forward.gemmaNorm
	d.norms = sandwichNorms
	b.decoder(d)
}
