// Package export knows what trainers can express: which shapes of plan their own knobs run exactly.
package export

import (
	"fmt"
	"strings"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
)

// Target is a trainer with the shapes of plan that its own knobs run exactly.
type Target struct {
	Name, Title string
	Shapes      []strategy.Shape
	// Source is where the knobs are documented.
	Source string
	// lines are the trainer's settings for a form; empty for a plan that they cannot say.
	lines func(f *form, m *class.Module) string
	// parts are the parts of a layer that it takes as regions, beside whole layers; nil: all.
	parts func(m *class.Module, span string) bool
}

// Expressible are the plans of a model of so many layers that the target's settings can say.
func (t *Target) Expressible(s *spec.Spec, layers int) strategy.Expressible {
	e := strategy.Expressible{Shapes: t.Shapes}
	m := class.ModuleOf(s)
	if t.parts != nil {
		e.Part = func(span string) bool { return t.parts(m, span) }
	}
	if t.lines != nil {
		e.Runs = func(p *plan.Plan) bool {
			f, ok := formOf(p, layers)
			return ok && t.lines(f, m) != ""
		}
	}
	return e
}

// areModules takes the parts that are modules of the class. The attentions of an encoder-decoder's layer are two in some layers only.
func areModules(m *class.Module, span string) bool { return m != nil && m.Parts[span].Kind == "module" }

// Targets are the trainers, by name. Sources: each project's documentation and configuration classes as of 2026.
var Targets = []Target{
	{"accelerate", "Hugging Face accelerate", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "FullyShardedDataParallelPlugin.activation_checkpointing", accelerateLines, nil},
	{"axolotl", "axolotl", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "gradient_checkpointing", axolotlLines, nil},
	{"checkpoint-wrapper", "torch checkpoint_wrapper", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList, strategy.Modules, strategy.ModuleMap}, "torch.distributed.algorithms._checkpoint.checkpoint_wrapper, check_fn", checkpointWrapperLines, areModules},
	{"colossalai", "ColossalAI", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.FirstN}, "PipelineGradientCheckpointConfig.num_ckpt_layers_per_stage", colossalaiLines, nil},
	{"deepspeed", "DeepSpeed PipelineModule", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.Uniform}, "PipelineModule.activation_checkpoint_interval", deepspeedLines, nil},
	{"hf-layers", "Hugging Face layer flag", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList}, "GradientCheckpointingLayer.gradient_checkpointing, set layer by layer", hfLayersLines, nil},
	{"hf-trainer", "Hugging Face Trainer", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList}, "TrainingArguments.gradient_checkpointing, and a callback that leaves it on in some layers", hfTrainerLines, nil},
	{"lightning", "Lightning FSDPStrategy", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.LayerList, strategy.Modules, strategy.ModuleMap}, "FSDPStrategy.activation_checkpointing_policy", lightningLines, areModules},
	{"llama-factory", "LLaMA-Factory", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "disable_gradient_checkpointing", llamaFactoryLines, nil},
	{"llm-foundry", "llm-foundry", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.LayerList}, "activation_checkpointing_target", llmFoundryLines, nil},
	{"megatron", "Megatron-LM", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.FirstN, strategy.Uniform, strategy.Modules}, "recompute_granularity, recompute_method, recompute_num_layers, recompute_modules", megatronLines, func(_ *class.Module, span string) bool { return megatronModules[span] != "" }},
	{"nanotron", "nanotron", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "recompute_layer", nanotronLines, nil},
	{"olmo-core", "OLMo-core", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.Modules}, "TransformerActivationCheckpointingMode", olmoCoreLines, func(_ *class.Module, span string) bool { return span == "mlp" || span == "attn" }},
	{"primus", "AMD Primus", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.FirstN, strategy.Uniform, strategy.LayerList, strategy.Modules}, "recompute_layer_ids and Megatron's flags", primusLines, func(_ *class.Module, span string) bool { return megatronModules[span] != "" }},
	{"torch", "torch.utils.checkpoint, as a Python file", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.FirstN, strategy.Uniform, strategy.LayerList, strategy.Modules, strategy.ModuleMap, strategy.SameOps, strategy.AnyOption, strategy.Segments, strategy.Nesting}, "checkpoint(use_reentrant=False), create_selective_checkpoint_contexts", nil, nil},
	{"torchtitan", "torchtitan", []strategy.Shape{strategy.NoLayer, strategy.AllLayers}, "activation_checkpoint.mode none and full", torchtitanLines, nil},
	{"torchtune", "torchtune", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.EveryK, strategy.LayerList}, "set_activation_checkpointing, ac_mode and ac_option", torchtuneLines, nil},
	{"unsloth", "unsloth", []strategy.Shape{strategy.NoLayer, strategy.AllLayers, strategy.Uniform}, "prepare_n_gradient_checkpoints", unslothLines, nil},
}

// FindTarget looks a trainer up; underscores and hyphens are the same.
func FindTarget(name string) (*Target, error) {
	want := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if want == "pytorch" {
		want = "torch"
	}
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
