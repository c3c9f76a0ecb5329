package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/model"
	"ckptplan/internal/optimizer"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/study"
)

// defaultPreset is used when no model is named. It has the size at which checkpointing starts to matter on one card.
const defaultPreset = "gpt-1.3b"

// modelOptions name a model and change its training step.
type modelOptions struct {
	model      string // preset, YAML file or config.json; empty: the default preset
	batch      count
	seq        count
	gradAccum  count
	lossChunks count
	precision  string
	attention  string
	activation string
	norm       string
	optimizer  string
	keepLogits bool
	lora       string
}

func (o *modelOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&o.batch, "batch", "micro batch: `sequences` per forward pass")
	f.Var(&o.seq, "seq", "sequence length in `tokens`")
	f.Var(&o.gradAccum, "grad-accum", "micro `batches` per step")
	f.Var(&o.lossChunks, "loss-chunks", "compute head and loss of a causal language model in this many `parts`, each recomputed (default 1)")
	f.StringVar(&o.precision, "precision", "", "bf16, fp16, fp32, amp-bf16 or amp-fp16 (amp: fp32 weights under autocast)")
	f.StringVar(&o.attention, "attention", "", "attention: eager, sdpa, math or flash2")
	f.StringVar(&o.activation, "activation", "", "MLP activation: gelu, gelu_new (composed of single ops, as Hugging Face does), gelu_tanh (the same in one kernel), silu, relu, …")
	f.StringVar(&o.norm, "norm", "", "norm: layernorm, rmsnorm (composed of single ops, as Hugging Face does) or rmsnorm-fused (the same in one kernel)")
	f.StringVar(&o.optimizer, "optimizer", "", optimizer.Help())
	f.BoolVar(&o.keepLogits, "keep-logits", true, "the caller keeps the model's output during backward")
	f.StringVar(&o.lora, "lora", "", "adapters: r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj")
	complete(cmd, "precision", "bf16", "fp16", "fp32", "amp-bf16", "amp-fp16")
	complete(cmd, "attention", "eager", "sdpa", "math", "flash2")
	complete(cmd, "activation", "gelu", "gelu_new", "gelu_tanh", "gelu_fast", "silu", "relu", "tanh", "quick_gelu")
	complete(cmd, "norm", "layernorm", "rmsnorm", "rmsnorm-fused")
	complete(cmd, "optimizer", optimizer.Names()...)
	cmd.ValidArgsFunction = completeModel
	section(cmd, modelSection)
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
		var replaced []string
		if o.precision != "" {
			replaced = append(replaced, "dtype")
		}
		if o.attention != "" {
			replaced = append(replaced, "attention")
		}
		var err error
		spec, err = model.LoadAny(name, readInput, replaced...)
		if is[model.Diagnostics](err) && holdsPlan(name) {
			return nil, &inputError{fmt.Errorf("%s is a plan file, not a model: use it with --strategy %s", name, name)}
		}
		if err != nil {
			return nil, err
		}
	}
	if spec == known {
		own := *known // flags change the copy, so that a plan made for other settings is refused
		spec = &own
	}
	given := cmd.Flags().Changed
	over := model.Overrides{Precision: o.precision, Attention: o.attention, Activation: o.activation, Norm: o.norm, Optimizer: o.optimizer}
	if given("batch") {
		over.Batch = (*int)(&o.batch)
	}
	if given("seq") {
		over.Seq = (*int)(&o.seq)
	}
	if given("grad-accum") {
		over.GradAccum = (*int)(&o.gradAccum)
	}
	if given("loss-chunks") {
		over.LossChunks = (*int)(&o.lossChunks)
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

// study starts a study of the model that the arguments name.
func (o *modelOptions) study(cmd *cobra.Command, args []string, req study.Request) (*study.Study, error) {
	o.model = firstOf(args)
	spec, err := o.load(cmd, nil)
	if err != nil {
		return nil, err
	}
	if err := strategy.Searchable(spec); err != nil {
		return nil, &inputError{err}
	}
	s, err := study.New(spec, req)
	if err != nil {
		return nil, &inputError{err}
	}
	return s, nil
}

// holdsPlan is true for a file that reads as a plan.
func holdsPlan(name string) bool {
	src, err := readInput(name)
	if err != nil {
		return false
	}
	_, err = plan.Read(name, src)
	return err == nil
}

// count is a flag that holds a whole number of things.
type count int

func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return errors.New("must be a whole number in digits, such as 8192")
	}
	*c = count(n)
	return nil
}

func (c *count) String() string {
	if c == nil || *c == 0 {
		return ""
	}
	return strconv.Itoa(int(*c))
}

// Type names the kind of value in the help.
func (c *count) Type() string { return "int" }
