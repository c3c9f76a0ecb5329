package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/model"
)

// defaultPreset is priced when no model is named, so that the bare command shows something real.
const defaultPreset = "gpt2"

// modelOptions name a model and change its training step.
type modelOptions struct {
	model      string // preset, YAML file or config.json; empty: the default preset
	batch      int
	seq        int
	gradAccum  int
	precision  string
	attention  string
	optimizer  string
	keepLogits bool
	lora       string
}

func (o *modelOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.batch, "batch", 0, "micro batch: `sequences` a forward pass")
	f.IntVar(&o.seq, "seq", 0, "sequence length in `tokens`")
	f.IntVar(&o.gradAccum, "grad-accum", 0, "micro batches a `step`")
	f.StringVar(&o.precision, "precision", "", "bf16, fp16, fp32, amp-bf16 or amp-fp16 (amp: fp32 weights under autocast)")
	f.StringVar(&o.attention, "attention", "", "attention: eager, sdpa, math or flash2")
	f.StringVar(&o.optimizer, "optimizer", "", "adamw (foreach), adamw-loop, adamw-fused, sgd or none")
	f.BoolVar(&o.keepLogits, "keep-logits", true, "the caller holds the model's output during backward")
	f.StringVar(&o.lora, "lora", "", "adapters: r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj")
	complete(cmd, "precision", "bf16", "fp16", "fp32", "amp-bf16", "amp-fp16")
	complete(cmd, "attention", "eager", "sdpa", "math", "flash2")
	complete(cmd, "optimizer", "adamw", "adamw-loop", "adamw-fused", "sgd", "none")
	cmd.ValidArgsFunction = completeModel
}

// completeModel offers presets, and files by the shell.
func completeModel(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range model.Presets() {
		if strings.HasPrefix(p.Name, prefix) {
			names = append(names, p.Name+"\t"+p.Description)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// load reads the model and applies the flags that were given. known is the spec to use if no model is named, or nil.
func (o *modelOptions) load(cmd *cobra.Command, known *model.Spec) (*model.Spec, error) {
	spec := known
	if o.model != "" || spec == nil {
		name := o.model
		if name == "" {
			name = defaultPreset
		}
		var err error
		if spec, err = model.LoadAny(name, os.ReadFile); err != nil {
			return nil, err
		}
	}
	given := cmd.Flags().Changed
	over := model.Overrides{Precision: o.precision, Attention: o.attention, Optimizer: o.optimizer}
	if given("batch") {
		over.Batch = &o.batch
	}
	if given("seq") {
		over.Seq = &o.seq
	}
	if given("grad-accum") {
		over.GradAccum = &o.gradAccum
	}
	if given("keep-logits") {
		over.KeepLogits = &o.keepLogits
	}
	if given("lora") {
		over.LoRA = &o.lora
	}
	if err := spec.Override(over); err != nil {
		return nil, &usageError{err}
	}
	return spec, nil
}
