package class

import (
	"slices"
	"strconv"

	"ckptplan/internal/document"
	"ckptplan/internal/model/spec"
)

var qwen2 = classifying(Class{
	Arch: "qwen2", Heads: []string{"Qwen2ForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, KVHeads: 32, FFN: 22016, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, Bias: spec.Bias{QKV: true},
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, typedKeys),
	Forward: Forward.llama,
	Linears: gatedLinears,
	Targets: qvTargets,
	Derive:  qwenWindow,
	encode:  qwenToConfig,
	parts:   gatedParts,
}, forSequences, forTokens)

// qwenWindow: the window counts with use_sliding_window only; layers from max_window_layers (28) on slide, unless
// layer_types says otherwise.
func qwenWindow(c *Config, s *spec.Spec) {
	qwenSlides(c, s)
	if c.Given("layer_types") || s.SlidingWindow == 0 || s.L > spec.MaxLayers {
		return
	}
	from := 28
	if v := c.Get("max_window_layers"); v != nil {
		if n, err := strconv.Atoi(v.Value); err == nil && n >= 0 {
			from = n
		} else {
			c.At(v, "max_window_layers: %s, but it is a whole number of at least 0", document.Shown(v))
		}
	}
	s.LayerTypes = make([]string, max(s.L, 0))
	for i := range s.LayerTypes {
		s.LayerTypes[i] = map[bool]string{true: "sliding_attention", false: "full_attention"}[i >= from]
	}
}

// qwenSlides reads the window where use_sliding_window is on.
func qwenSlides(c *Config, s *spec.Spec) {
	use := c.Get("use_sliding_window")
	if use == nil || use.Value != "true" {
		s.SlidingWindow = 0 // null: the class raises an error for a layer that slides
		if slices.Contains(s.LayerTypes, "sliding_attention") {
			c.Key("layer_types", "layer_types has sliding_attention, which needs use_sliding_window: true and sliding_window: the window in tokens")
		}
		delete(c.Spec, "sliding_window")
		return
	}
	if !c.Given("sliding_window") && !c.Null("sliding_window") {
		s.SlidingWindow = 4096
	}
}

// qwenToConfig says that the window counts.
func qwenToConfig(s *spec.Spec, config map[string]any) {
	config["use_sliding_window"] = s.SlidingWindow > 0
}
