// Package export knows what trainers can express: which shapes of plan their own knobs run exactly.
package export

import (
	"fmt"
	"strings"

	"ckptplan/internal/strategy"
)

// Target is a trainer with the shapes of plan that its own knobs run exactly.
type Target struct {
	Name, Title string
	Shapes      []strategy.Shape
	// Source is where the knobs are documented.
	Source string
}

// Targets are the trainers, by name. Sources: each project's documentation and configuration classes as of 2026.
var Targets = []Target{
	{"accelerate", "Hugging Face accelerate", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "FullyShardedDataParallelPlugin.activation_checkpointing"},
	{"axolotl", "axolotl", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "gradient_checkpointing"},
	{"checkpoint-wrapper", "torch checkpoint_wrapper", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList, strategy.Modules, strategy.ModuleMap, strategy.SameOps, strategy.AnyOption}, "torch.distributed.algorithms._checkpoint.checkpoint_wrapper, check_fn and context_fn"},
	{"colossalai", "ColossalAI", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.FirstN}, "PipelineGradientCheckpointConfig.num_ckpt_layers_per_stage"},
	{"deepspeed", "DeepSpeed PipelineModule", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.Uniform}, "PipelineModule.activation_checkpoint_interval"},
	{"hf-layers", "Hugging Face layer flag", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList}, "GradientCheckpointingLayer.gradient_checkpointing, set layer by layer"},
	{"hf-trainer", "Hugging Face Trainer", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK}, "TrainingArguments.gradient_checkpointing, gradient_checkpointing_kwargs.every_n_layers"},
	{"lightning", "Lightning FSDPStrategy", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.Modules, strategy.LayerList}, "FSDPStrategy.activation_checkpointing_policy"},
	{"llama-factory", "LLaMA-Factory", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "disable_gradient_checkpointing"},
	{"llm-foundry", "llm-foundry", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList, strategy.Modules, strategy.ModuleMap}, "activation_checkpointing_target"},
	{"megatron", "Megatron-LM", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.FirstN, strategy.Uniform, strategy.Modules}, "recompute_granularity, recompute_method, recompute_num_layers, recompute_modules"},
	{"nanotron", "nanotron", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "recompute_layer"},
	{"olmo-core", "OLMo-core", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.Modules}, "TransformerActivationCheckpointingMode"},
	{"primus", "AMD Primus", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.FirstN, strategy.Uniform, strategy.LayerList, strategy.Modules}, "recompute_layer_ids and Megatron's flags"},
	{"pytorch", "torch.utils.checkpoint", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.Uniform, strategy.LayerList, strategy.Modules, strategy.ModuleMap, strategy.SameOps, strategy.AnyOption, strategy.Segments, strategy.Nesting}, "checkpoint(use_reentrant=False), create_selective_checkpoint_contexts"},
	{"torchtitan", "torchtitan", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "activation_checkpoint.mode none and full"},
	{"torchtune", "torchtune", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.LayerList}, "set_activation_checkpointing, ac_mode and ac_option"},
	{"unsloth", "unsloth", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.Uniform}, "prepare_n_gradient_checkpoints"},
}

// FindTarget looks a trainer up; underscores and hyphens are the same.
func FindTarget(name string) (*Target, error) {
	want := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	var names []string
	for i := range Targets {
		if Targets[i].Name == want {
			return &Targets[i], nil
		}
		names = append(names, Targets[i].Name)
	}
	return nil, &UnknownTargetError{Name: name, Known: names}
}

// UnknownTargetError is returned for a trainer that is not in the table.
type UnknownTargetError struct {
	Name  string
	Known []string
}

func (e *UnknownTargetError) Error() string {
	return fmt.Sprintf("unknown target %q (known: %s)", e.Name, strings.Join(e.Known, ", "))
}
