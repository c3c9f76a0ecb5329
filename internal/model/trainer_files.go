package model

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
)

const settingFlags = "settings as flags (--batch, --seq, --precision …)"

// trainerFiles are files that people hold beside their model, by the keys that tell them.
var trainerFiles = []struct {
	keys                []string
	what, instead, with string // with: how its settings are given
}{
	{[]string{"peft_type"}, "an adapter_config.json of peft", "the model that base_model_name_or_path names", "this file with --lora"},
	{[]string{"base_model"}, "an axolotl config", "the model that base_model names", settingFlags},
	{[]string{"model_name_or_path"}, "a config of LLaMA-Factory or TRL", "the model that model_name_or_path names", settingFlags},
	{[]string{"per_device_train_batch_size", "per_gpu_train_batch_size"}, "Hugging Face's TrainingArguments", "the config.json of the model to train", settingFlags},
	{[]string{"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}, "a DeepSpeed config", "the config.json of the model to train", settingFlags},
	{[]string{"distributed_type", "compute_environment"}, "a config of accelerate", "the config.json of the model to train", settingFlags},
	{[]string{"checkpointer"}, "a torchtune config", "the config.json of the model to train", settingFlags},
	{[]string{"tokenizer_class"}, "a tokenizer's config", "the config.json beside it", settingFlags},
	{[]string{"weight_map"}, "an index of a checkpoint's files", "the config.json beside it", settingFlags},
}

// trainerFile reports a document that is such a file, in one sentence: its keys would be as many wrong keys of a model.
func trainerFile(r *document.Source, root *yaml.Node) bool {
	for _, f := range trainerFiles {
		for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
			if k := root.Content[i]; slices.Contains(f.keys, k.Value) {
				r.At(k, "this is %s, not a model: give %s as MODEL, and %s", f.what, f.instead, f.with)
				return true
			}
		}
	}
	return false
}
