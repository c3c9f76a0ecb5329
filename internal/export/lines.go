package export

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/model/class"
	"ckptplan/internal/plan"
)

// Lines are what goes into the trainer so that it runs a file's plan, of so many layers. The error says that its settings cannot.
func (t *Target) Lines(file *plan.File, layers int) (string, error) {
	if f, ok := formOf(&file.Plan, layers); ok && t.lines != nil {
		if lines := t.lines(f, class.ModuleOf(file.Spec)); lines != "" {
			return strings.TrimRight(lines, "\n") + "\n", nil
		}
	}
	return "", fmt.Errorf("target %s: its settings (%s) cannot run this plan: optimize with --target %s finds the fastest that they can, and --target torch writes any plan as a Python file", t.Name, t.Source, t.Name)
}

// choose is the Python that names the layers of a Hugging Face model.
const choose = "from transformers.modeling_layers import GradientCheckpointingLayer\n\nlayers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]\n"

func accelerateLines(f *form, _ *class.Module) string {
	return switched(f, "fsdp_config:  # of accelerate's configuration file\n  fsdp_activation_checkpointing: %s\n", "true", "false")
}

func axolotlLines(f *form, _ *class.Module) string {
	if f.none() {
		return "gradient_checkpointing: false\n"
	}
	return switched(f, "gradient_checkpointing: %s\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n", "true", "")
}

func llamaFactoryLines(f *form, _ *class.Module) string {
	if f.none() {
		return "disable_gradient_checkpointing: true\n"
	}
	return switched(f, "disable_gradient_checkpointing: %s\nuse_reentrant_gc: false\n", "false", "")
}

func nanotronLines(f *form, _ *class.Module) string {
	return switched(f, "parallelism:\n  recompute_layer: %s\n", "true", "false")
}

func torchtitanLines(f *form, _ *class.Module) string {
	return switched(f, "[activation_checkpoint]\nmode = \"%s\"\n", "full", "none")
}

// switched are the lines of a setting that is on or off; empty for any other plan.
func switched(f *form, format, on, off string) string {
	switch {
	case f.none():
		return fmt.Sprintf(format, off)
	case f.all():
		return fmt.Sprintf(format, on)
	}
	return ""
}

func colossalaiLines(f *form, _ *class.Module) string {
	if n := f.first(); n > 0 || f.none() {
		return fmt.Sprintf("from colossalai.shardformer import PipelineGradientCheckpointConfig\n\nplugin_kwargs = dict(gradient_checkpoint_config=PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=[%d]))\n", n)
	}
	return ""
}

func deepspeedLines(f *form, _ *class.Module) string {
	k := f.segment
	if f.all() {
		k = 1
	}
	if k > 0 || f.none() {
		return fmt.Sprintf("model = PipelineModule(layers=layers, activation_checkpoint_interval=%d, …)\n", k)
	}
	return ""
}

func hfLayersLines(f *form, _ *class.Module) string {
	switch {
	case f.none():
		return "model.gradient_checkpointing_disable()\n"
	case len(f.whole) == 0:
		return ""
	}
	lines := "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\"use_reentrant\": False})\n"
	if f.all() {
		return lines
	}
	return choose + lines + fmt.Sprintf("for i, layer in enumerate(layers):\n    layer.gradient_checkpointing = i in {%s}\n", f.numbers())
}

func hfTrainerLines(f *form, _ *class.Module) string {
	switch {
	case f.none():
		return "args = TrainingArguments(…, gradient_checkpointing=False)\n"
	case f.all():
		return "args = TrainingArguments(…, gradient_checkpointing=True, gradient_checkpointing_kwargs={\"use_reentrant\": False})\n"
	case len(f.whole) == 0:
		return ""
	}
	return fmt.Sprintf(`from transformers import TrainerCallback
from transformers.modeling_layers import GradientCheckpointingLayer


class SomeLayers(TrainerCallback):
    """The Trainer turns checkpointing on in every layer; this leaves it on in those of the plan."""

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
        for i, layer in enumerate(layers):
            layer.gradient_checkpointing = i in {%s}


args = TrainingArguments(…, gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False})
trainer = Trainer(…, args=args, callbacks=[SomeLayers()])
`, f.numbers())
}

func checkpointWrapperLines(f *form, m *class.Module) string {
	if f.none() {
		return "# no apply_activation_checkpointing: every tensor is kept\n"
	}
	chosen, ok := modulesOf(f, m)
	if !ok {
		return ""
	}
	return choose + chosen + `
from functools import partial
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, apply_activation_checkpointing, checkpoint_wrapper

apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT), check_fn=lambda module: id(module) in chosen)
`
}

// modulesOf is the Python that collects the modules that are regions; false if some part is no module.
func modulesOf(f *form, m *class.Module) (string, bool) {
	if f.segment > 0 || m == nil {
		return "", false
	}
	lines := "chosen = set()\n"
	for first := 0; first < f.layers; {
		last := first
		for last+1 < f.layers && slices.Equal(f.regions[last+1], f.regions[first]) {
			last++
		}
		var at []string
		for _, part := range f.regions[first] {
			switch p := m.Parts[part]; {
			case part == "layer":
				at = append(at, "layer")
			case !areModules(m, part):
				return "", false
			default:
				for _, path := range p.At {
					at = append(at, dotted(path))
				}
			}
		}
		if len(at) > 0 {
			lines += fmt.Sprintf("for layer in layers[%d:%d]:\n    chosen |= {%s}\n", first, last+1, "id("+strings.Join(at, "), id(")+")")
		}
		first = last + 1
	}
	return lines, true
}

func lightningLines(f *form, m *class.Module) string {
	switch {
	case f.none():
		return "strategy = FSDPStrategy(…)  # no activation_checkpointing_policy\n"
	case f.all():
		return choose + "strategy = FSDPStrategy(…, activation_checkpointing_policy={type(layers[0])})\n"
	}
	chosen, ok := modulesOf(f, m)
	if !ok {
		return ""
	}
	return choose + chosen + `
from functools import partial
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy

strategy = FSDPStrategy(…, activation_checkpointing_policy=partial(lambda_auto_wrap_policy, lambda_fn=lambda module: id(module) in chosen))
`
}

func llmFoundryLines(f *form, _ *class.Module) string {
	const head = "fsdp_config:\n  activation_checkpointing: true\n  activation_checkpointing_reentrant: false\nmodel:\n  activation_checkpointing_target:\n"
	switch n := f.first(); {
	case f.none():
		return "fsdp_config:\n  activation_checkpointing: false\n"
	case f.all():
		return head + "    - mptblock\n"
	case n > 0:
		return head + fmt.Sprintf("    mptblock: first-%d\n", n)
	case len(f.whole) > 0:
		return head + fmt.Sprintf("    mptblock: [%s]\n", f.numbers())
	}
	return ""
}

// megatronModules are Megatron's names of parts.
var megatronModules = map[string]string{"core": "core_attn", "mlp": "mlp"}

func megatronLines(f *form, _ *class.Module) string {
	full := func(method string, n int) string {
		return fmt.Sprintf("--recompute-granularity full --recompute-method %s --recompute-num-layers %d\n", method, n)
	}
	switch n := f.first(); {
	case f.none():
		return "# no --recompute-granularity\n"
	case f.all():
		return full("uniform", 1)
	case n > 0:
		return full("block", n)
	case f.segment > 0 && f.layers%f.segment == 0:
		return full("uniform", f.segment)
	case f.parts != nil:
		var names []string
		for _, p := range f.parts {
			if megatronModules[p] == "" {
				return ""
			}
			names = append(names, megatronModules[p])
		}
		return "--recompute-granularity selective --recompute-modules " + strings.Join(names, " ") + "\n"
	}
	return ""
}

func primusLines(f *form, m *class.Module) string {
	if len(f.whole) > 0 && !f.all() && f.first() == 0 {
		return fmt.Sprintf("recompute_granularity: full\nrecompute_layer_ids: [%s]\n", f.numbers())
	}
	return megatronLines(f, m)
}

func olmoCoreLines(f *form, _ *class.Module) string {
	const mode = "TransformerActivationCheckpointingConfig(mode=TransformerActivationCheckpointingMode.%s%s)\n"
	switch k := f.every(); {
	case f.none():
		return "# no TransformerActivationCheckpointingConfig\n"
	case f.all():
		return fmt.Sprintf(mode, "full", "")
	case k > 0:
		return fmt.Sprintf(mode, "selected_blocks", fmt.Sprintf(", block_interval=%d", k))
	case slices.Equal(f.parts, []string{"mlp"}):
		return fmt.Sprintf(mode, "selected_modules", `, modules=["blocks.*.feed_forward"]`)
	case slices.Equal(f.parts, []string{"attn"}):
		return fmt.Sprintf(mode, "selected_modules", `, modules=["blocks.*.attention"]`)
	}
	return ""
}

func torchtuneLines(f *form, _ *class.Module) string {
	switch k := f.every(); {
	case f.none():
		return "enable_activation_checkpointing: False\n"
	case f.all():
		return "enable_activation_checkpointing: True\n"
	case k > 0:
		return fmt.Sprintf("enable_activation_checkpointing: True\nac_mode: selective\nac_option: %d\n", k)
	}
	return ""
}

func unslothLines(f *form, _ *class.Module) string {
	switch {
	case f.none():
		return "model = FastLanguageModel.get_peft_model(…, use_gradient_checkpointing=False)\n"
	case f.all():
		return "model = FastLanguageModel.get_peft_model(…, use_gradient_checkpointing=True)\n"
	}
	return ""
}
