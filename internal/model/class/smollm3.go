package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
)

var smollm3 = classifying(Class{
	Arch: "smollm3", Heads: []string{"SmolLM3ForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 36, H: 2048, Heads: 16, KVHeads: 4, FFN: 11008, Vocab: 128256, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, Tied: true,
	},
	Keys:      Concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias, typedKeys, []hfKey{{"no_rope_layers", "rotary_layers"}}),
	Forward:   Forward.llama,
	Linears:   gatedLinears,
	Targets:   qvTargets,
	Constants: build.Constants{RotaryBase: 2_000_000},
	Derive:    smollm3Config,
	encode:    qwenToConfig,
	Defaults:  smollm3Defaults,
	Problems:  rotaryProblems,
	parts:     gatedParts,
}, forSequences, forTokens)

// smollm3Config: no_rope_layers has a 1 for a layer with positions, and may be longer than the model. With use_sliding_window the
// layers without positions slide, unless layer_types says which.
func smollm3Config(c *Config, s *spec.Spec) {
	if n := len(s.RotaryLayers); n == 0 && s.L <= spec.MaxLayers {
		s.RotaryLayers = rotaryBut(c.count("no_rope_layer_interval", 4), s.L)
		if v := c.Get("no_rope_layer_interval"); v != nil {
			c.Spec["rotary_layers"] = v
		}
	} else if n > s.L {
		s.RotaryLayers = s.RotaryLayers[:s.L]
	}
	if use := c.Get("use_sliding_window"); !c.Given("layer_types") && (use == nil || use.Value != "true") {
		s.SlidingWindow = 0
		delete(c.Spec, "sliding_window")
	}
}

func smollm3Defaults(s *spec.Spec, given func(string) bool) {
	if !given("rotary_layers") && s.L <= spec.MaxLayers {
		s.RotaryLayers = rotaryBut(4, s.L)
	}
	if !given("layer_types") && s.SlidingWindow > 0 && len(s.RotaryLayers) == s.L {
		s.LayerTypes = slidesBut(s.L+1, s.L)
		for i, rotary := range s.RotaryLayers {
			if rotary != 0 {
				s.LayerTypes[i] = "full_attention"
			}
		}
	}
}

// rotaryBut is 1 for each layer but every nth.
func rotaryBut(n, layers int) []int {
	rotary := make([]int, max(layers, 0))
	for i := range rotary {
		rotary[i] = oneIf((i+1)%n != 0)
	}
	return rotary
}

func rotaryProblems(s *spec.Spec, add func(key, format string, args ...any)) {
	if n := len(s.RotaryLayers); n != s.L {
		add("rotary_layers", "rotary_layers has %d entries for L %d layers", n, s.L)
	}
	for _, v := range s.RotaryLayers {
		if v != 0 && v != 1 {
			add("rotary_layers", "rotary_layers has %d: an entry is 1 for a layer with rotary positions, or 0", v)
			return
		}
	}
}
