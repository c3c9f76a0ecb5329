package model

import (
	"slices"
	"strings"
	"testing"
)

// Windows and rotary layers of decoders, as their configuration classes derive them: s is a layer that slides, f one with full
// attention, n one without rotary positions.
func TestLayersOfDecoders(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type": "gemma3_text", "num_hidden_layers": 7}`:                                                                                                  "sssssfs",
		`{"model_type": "gemma3_text", "num_hidden_layers": 5, "sliding_window_pattern": 2, "rope_local_base_freq": 10000}`:                                      "sfsfs",
		`{"model_type": "gemma3_text", "num_hidden_layers": 2, "layer_types": ["full_attention", "full_attention"]}`:                                             "ff",
		`{"model_type": "olmo3", "num_hidden_layers": 5}`:                                                                                                        "sssfs",
		`{"model_type": "gpt_oss", "num_hidden_layers": 3, "experts_per_token": 4, "swiglu_limit": 7.0}`:                                                         "sfs",
		`{"model_type": "smollm3", "num_hidden_layers": 5}`:                                                                                                      "fffnf",
		`{"model_type": "smollm3", "num_hidden_layers": 3, "no_rope_layer_interval": 2, "sliding_window": 8}`:                                                    "fnf",
		`{"model_type": "smollm3", "num_hidden_layers": 2, "no_rope_layers": [0, 1, 1, 1], "use_sliding_window": true, "sliding_window": 8}`:                     "Sf",
		`{"model_type": "qwen2_moe", "num_hidden_layers": 3, "sliding_window": 8, "max_window_layers": 2}`:                                                       "fff",
		`{"model_type": "qwen2_moe", "num_hidden_layers": 5, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 3}`:                           "sfsff",
		`{"model_type": "glm4", "num_hidden_layers": 1, "partial_rotary_factor": 0.5, "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}}`: "f",
	} {
		s, err := LoadHF("config.json", whole(config))
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		var got strings.Builder
		for i := range s.L {
			slides := slices.Contains(s.LayerTypes[min(i, len(s.LayerTypes)):min(i+1, len(s.LayerTypes))], "sliding_attention")
			rotary := len(s.RotaryLayers) == 0 || s.RotaryLayers[i] == 1
			got.WriteByte(map[[2]bool]byte{{true, true}: 's', {false, true}: 'f', {false, false}: 'n', {true, false}: 'S'}[[2]bool{slides, rotary}])
		}
		if got.String() != want {
			t.Errorf("%s: layers %s, want %s", config, got.String(), want)
		}
		roundTrip(t, s)
	}
	for config, want := range map[string]string{
		`{"model_type": "smollm3", "num_hidden_layers": 3, "no_rope_layers": [1, 0]}`:               "rotary_layers has 2 entries for L 3 layers",
		`{"model_type": "smollm3", "num_hidden_layers": 1, "no_rope_layers": [2]}`:                  "rotary_layers has 2: an entry is 1 for a layer with rotary positions, or 0",
		`{"model_type": "gemma3_text", "sliding_window_pattern": 0}`:                                "sliding_window_pattern: 0, but it is a whole number of at least 1",
		`{"model_type": "gemma3_text", "use_bidirectional_attention": true}`:                        "only false is",
		`{"model_type": "gpt_oss", "attn_implementation": "sdpa"}`:                                  "eager attention only",
		`{"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}`:               "quantization_config",
		`{"model_type": "qwen2_moe", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]}`: "use_sliding_window",
	} {
		if _, err := LoadHF("config.json", whole(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}
