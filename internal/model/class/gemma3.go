package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var gemma3 = classifying(Class{
	Arch: "gemma3-text", Own: []string{"norm"}, Heads: []string{"Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 26, H: 2304, Heads: 8, KVHeads: 4, HeadDim: 256, FFN: 9216, Vocab: 262208, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		QKNorm: true, Activation: "gelu_tanh", Gated: true, Positions: "rotary", Rotary: 1, Tied: true, SlidingWindow: 4096,
	},
	Keys:    Concat(sizeKeys[:5], sizeKeys[6:], groupKeys, tiedKey, attnBias, typedKeys, []hfKey{{"hidden_activation", "activation"}}),
	Only:    []hfOnly{{"use_bidirectional_attention", "false"}},
	varies:  []string{"logit_softcap"},
	Forward: Forward.gemma3, KeepsWindow: true,
	Linears:   gatedLinears,
	Targets:   qvTargets,
	Constants: build.Constants{RotaryBase: 1_000_000},
	Derive:    gemma3Config,
	encode:    gemma3ToConfig,
	Defaults:  slideBut(6),
	parts:     gemma2.parts,
})

// gemma3Config: attn_logit_softcapping is a field of the configuration that the class does not read.
func gemma3Config(c *Config, s *spec.Spec) {
	s.LogitSoftcap = c.Get("final_logit_softcapping") != nil
	if v := c.Get("sliding_window_pattern"); v != nil && !c.Given("layer_types") && s.L <= spec.MaxLayers {
		s.LayerTypes, c.Spec["layer_types"] = slidesBut(c.count("sliding_window_pattern", 6), s.L), v
	}
}

func gemma3ToConfig(s *spec.Spec, config map[string]any) {
	config["query_pre_attn_scalar"] = s.HeadDim
	if s.LogitSoftcap {
		config["final_logit_softcapping"] = real64(build.LogitSoftcap)
	}
}

// gemma3 is Gemma3ForCausalLM: Gemma 2's norms, norms on q and k, and a rotary table for each type of layer.
// Source: transformers/models/gemma3/modeling_gemma3.py.
func (b Forward) gemma3() {
	d := llamaClass()
	d.embed, d.norm, d.heads, d.typedTables = Forward.scaleEmbedding, Forward.gemmaNorm, Forward.gemma3Heads, true
	d.norms = sandwichNorms
	b.decoder(d)
}

// gemma3Heads projects to q, k and v, then takes the norms over each head's q and k.
func (b Forward) gemma3Heads(d *decoder, p string, x graph.TensorID) (q, k, v graph.TensorID) {
	q, k, v = b.llamaQKV(p, x)
	normed := func(x graph.TensorID, name string) graph.TensorID {
		y := d.norm(b, x, p+name, int64(b.Spec.HeadDim))
		b.Keep(x)
		return y
	}
	return normed(q, "q_norm"), normed(k, "k_norm"), v
}

// llamaQKV projects to q [B, a, S, D], k and v [B, kv, S, D].
func (b Forward) llamaQKV(p string, x graph.TensorID) (q, k, v graph.TensorID) {
	s := b.Spec
	heads := func(name string, count int) graph.TensorID {
		return b.Heads(p, name, x, int64(s.H), int64(count), int64(s.HeadDim), s.Bias.QKV)
	}
	return heads("q_proj", s.Heads), heads("k_proj", s.KVHeads), heads("v_proj", s.KVHeads)
}
