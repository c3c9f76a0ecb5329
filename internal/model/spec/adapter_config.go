package spec

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
)

// ReadAdapter reads an adapter_config.json of peft. What it says of memory is r, lora_alpha, lora_dropout and target_modules;
// settings that would change memory otherwise are refused, unknown ones too unless they are off. Adapters are in fp32, as
// peft makes them (autocast_adapter_dtype). The error is a Diagnostics.
// Source: peft 0.21, tuners/lora/config.py.
func ReadAdapter(name string, src []byte) (*LoRA, error) {
	r := document.NewSource(name, src)
	if r.Unreadable(src, "an adapter_config.json of peft") {
		return nil, r.Diags
	}
	root := r.Json(src)
	if root == nil {
		return nil, r.Diags
	}
	l := &LoRA{Rank: 8, Alpha: 8, DType: "fp32"} // peft's own defaults
	typed := false
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		typed = typed || k.Value == "peft_type"
		l.adapterKey(r, k, v)
	}
	if !typed {
		r.Line(1, 1, "no peft_type: an adapter_config.json of peft has one, such as \"LORA\"")
	}
	if len(r.Diags) > 0 {
		return nil, r.Sorted()
	}
	return l, nil
}

// harmless are the keys of an adapter_config.json that do not change the memory of a training step: names and versions, how weights begin,
// factors of the sum (use_rslora), and settings of what other keys turn on.
var harmless = []string{
	"auto_mapping", "base_model_name_or_path", "revision", "peft_version", "inference_mode", "fan_in_fan_out", "init_lora_weights", "use_rslora",
	"alpha_pattern", "megatron_core", "layers_pattern", "loftq_config", "eva_config", "corda_config", "qalora_group_size",
}

// refusedKeys say what is not modelled of a key that is not off.
var refusedKeys = map[string]string{
	"use_dora":                "DoRA is not modelled: its norms of whole weights are made anew in every forward pass",
	"modules_to_save":         "copies of modules that are trained whole are not modelled: only adapters are",
	"layers_to_transform":     "adapters in some layers only are not modelled",
	"rank_pattern":            "ranks that differ between layers are not modelled",
	"exclude_modules":         "list the names in target_modules instead",
	"target_parameters":       "adapters on parameters that are no linear layer are not modelled",
	"trainable_token_indices": "trained rows of an embedding are not modelled",
	"layer_replication":       "layers that are used twice are not modelled",
	"lora_bias":               "biases of adapters are not modelled",
}

func (l *LoRA) adapterKey(r *document.Source, k, v *yaml.Node) {
	switch k.Value {
	case "peft_type":
		if v.Value != "LORA" {
			r.At(v, "peft_type: %s is not modelled: only \"LORA\" is", document.Shown(v))
		}
	case "r":
		l.Rank = r.Count("r", 1, v)
	case "lora_alpha":
		l.Alpha = r.Real("lora_alpha", document.Positive, v)
	case "lora_dropout":
		l.Dropout = r.Real("lora_dropout", document.Probability, v)
	case "target_modules":
		l.Targets = targetModules(r, v)
	case "bias":
		if v.Tag != "!!null" && v.Value != "none" {
			r.At(v, "bias: %s is not modelled: only \"none\" is, which trains no bias", document.Shown(v))
		}
	case "task_type":
		if slices.Contains([]string{"SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS"}, v.Value) {
			r.At(v, "task_type: %s is not modelled: peft trains the head for labels whole beside the adapters", document.Shown(v))
		}
	default:
		if off(v) || slices.Contains(harmless, k.Value) {
			return
		}
		if why := refusedKeys[k.Value]; why != "" {
			r.At(v, "%s: %s", k.Value, why)
			return
		}
		r.At(k, "%s is not known: what it changes is not modelled", k.Value)
	}
}

// off is true for null, false, and what is empty.
func off(v *yaml.Node) bool {
	return v.Tag == "!!null" || v.Value == "false" && v.Tag == "!!bool" || v.Kind != yaml.ScalarNode && len(v.Content) == 0
}

// targetModules are the names of a list, all-linear, or none for peft's defaults of the class.
func targetModules(r *document.Source, v *yaml.Node) []string {
	if v.Tag == "!!null" {
		return nil
	}
	if v.Kind == yaml.ScalarNode {
		if v.Value != "all-linear" {
			r.At(v, "target_modules: %s is a regular expression, which only the model itself can answer: list the names", document.Shown(v))
		}
		return []string{"all-linear"}
	}
	var names []string
	for _, e := range r.List("target_modules", `"q_proj", "v_proj"`, v) {
		names = append(names, r.Word("target_modules", e, func(text string) (string, string) { return text, "" }))
	}
	return names
}
