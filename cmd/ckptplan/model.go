package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckptplan/internal/document"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
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
	decoderSeq count
	gradAccum  count
	lossChunks count
	precision  string
	weights    string
	autocast   string
	attention  string
	activation string
	norm       string
	optimizer  string
	keepLogits bool
	lora       string
	qlora      string
}

func (o *modelOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	for name, v := range map[string]pflag.Value{"batch": &o.batch, "seq": &o.seq, "decoder-seq": &o.decoderSeq, "grad-accum": &o.gradAccum, "loss-chunks": &o.lossChunks} {
		help, _ := spec.Flag(name)
		f.Var(v, name, help)
	}
	for name, v := range map[string]*string{
		"precision": &o.precision, "weights": &o.weights, "autocast": &o.autocast, "attention": &o.attention, "activation": &o.activation, "norm": &o.norm, "optimizer": &o.optimizer, "lora": &o.lora, "qlora": &o.qlora,
	} {
		help, words := spec.Flag(name)
		f.StringVar(v, name, "", help)
		if words != nil && name != "qlora" { // where they are a part of the value
			complete(cmd, name, words...)
		}
	}
	help, _ := spec.Flag("keep-logits")
	f.BoolVar(&o.keepLogits, "keep-logits", true, help)
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
func (o *modelOptions) load(cmd *cobra.Command, known *spec.Spec) (*spec.Spec, error) {
	spec := known
	if o.model != "" || spec == nil {
		name := o.model
		if name == "" {
			name = defaultPreset
		}
		var replaced []string
		if o.precision != "" || o.weights != "" {
			replaced = append(replaced, "dtype")
		}
		if o.attention != "" {
			replaced = append(replaced, "attention")
		}
		var err error
		spec, err = model.LoadAny(name, readInput, replaced...)
		if is[document.Diagnostics](err) && holdsPlan(name) {
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
	over := model.Overrides{Precision: o.precision, Weights: o.weights, Autocast: o.autocast, Attention: o.attention, Activation: o.activation, Norm: o.norm, Optimizer: o.optimizer}
	if given("batch") {
		over.Batch = (*int)(&o.batch)
	}
	if given("seq") {
		over.Seq = (*int)(&o.seq)
	}
	if given("decoder-seq") {
		over.DecoderSeq = (*int)(&o.decoderSeq)
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
	if given("qlora") {
		over.QLoRA = &o.qlora
	}
	var err error
	if over.Adapters, err = adapterFile(cmp.Or(over.LoRA, over.QLoRA), o.model); err != nil {
		return nil, err
	}
	if err := model.Override(spec, over); err != nil {
		return nil, &usageError{err}
	}
	return spec, nil
}

// adapterFile reads the adapter_config.json, or the folder of one, that --lora names, seen from here or from the model's folder.
// It is nil for settings in words.
func adapterFile(text *string, model string) (*spec.LoRA, error) {
	if text == nil || strings.Contains(*text, "=") && filepath.Ext(*text) != ".json" {
		return nil, nil
	}
	for _, folder := range []string{"", model, filepath.Dir(model)} {
		for _, file := range []string{filepath.Join(folder, *text), filepath.Join(folder, *text, "adapter_config.json")} {
			if src, err := readInput(file); err == nil {
				return spec.ReadAdapter(file, src)
			}
		}
	}
	return nil, nil
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
	s, err := interruptible(cmd.Context(), func() (*study.Study, error) { return study.New(spec, req) })
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
