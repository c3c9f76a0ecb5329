package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/exec"
	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/report"
	"ckptplan/internal/study"
)

type verifyOptions struct {
	modelOptions
	outputOptions
	engineOptions
	strategy   string
	card       string
	tolerance  shareFlag
	noBaseline bool
	save       string
}

func newVerifyCommand(g *globals) *cobra.Command {
	o := verifyOptions{tolerance: 0.05}
	cmd := &cobra.Command{
		Use:   "verify [MODEL|PLAN] --device 0|cpu|meta",
		Short: "Run a plan on a device and compare it with the prediction",
		Long: `Verify runs real training steps under a plan and sets peak memory, phase by phase, beside the prediction. The step
without checkpointing runs as well: the plan must change neither loss nor gradients, and its extra time is measured
against that step.

MODEL is a preset, a YAML spec or a config.json; --strategy names the plan (default: the spec's own checkpoint). PLAN is a
plan file, for the model it was made for; a second argument, or --model, runs it on another one. Devices:

  0, 1, …  a CUDA device, by PyTorch: tensors, the allocator's and the driver's bytes, times, gradients
  cpu      PyTorch on the CPU, or without PyTorch the host engine, which is part of ckptplan: small models only
  meta     PyTorch on tensors without storage: the tensor bytes of any model on any machine

  ckptplan verify plan.yaml --device 0
  ckptplan verify llama-3-8b --strategy full --device meta --python venv/bin/python

It never falls back to another device. The torch engine needs PyTorch 2.4 or later; with
transformers 5 it runs the Hugging Face class itself.

Exit codes: 0 prediction and measurement agree, 1 unexpected (the runner died or took too long), 2 usage, 3 invalid input
file or a plan for another model, 4 the device ran out of memory (the result is still printed), 5 they differ (likewise),
6 no usable device or engine, 130 interrupted.`,
		Args: atMostArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd, g, &o, args) },
	}
	o.modelOptions.addFlags(cmd)
	o.engineOptions.addFlags(cmd)
	o.outputOptions.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "`model` to run, if the argument is a plan")
	f.StringVar(&o.strategy, "strategy", "", "strategy or plan `file` to run (default: the spec's checkpoint)")
	f.StringVar(&o.card, "gpu", "", "card to predict times for (default: the device itself)")
	f.Var(&o.tolerance, "tolerance", "how far a prediction may be off, in per cent of the measured value")
	f.BoolVar(&o.noBaseline, "no-baseline", false, "skip the step without checkpointing, so that gradients and extra time are not compared")
	f.StringVar(&o.save, "save", "", "append the result to this `file`, one JSON document a line")
	complete(cmd, "strategy", "none", "full", "sqrt", "every-2", "selective", "selective-attn", "selective-mlp", "offload", "offload-inputs")
	return cmd
}

func runVerify(cmd *cobra.Command, g *globals, o *verifyOptions, args []string) error {
	if err := o.check(g); err != nil {
		return err
	}
	if err := o.ready(cmd); err != nil {
		return err
	}
	if err := placeOf("save", o.save); err != nil {
		return err
	}
	spec, choice, err := o.subject(cmd, args)
	if err != nil {
		return err
	}
	dev, err := o.find()
	if err != nil {
		return err
	}
	req, err := o.request(dev)
	if err != nil {
		return err
	}
	engine, err := o.pick(cmd.Context(), dev, o.config())
	if err != nil {
		return err
	}
	if engine.name == "torch" && spec.Train.LossChunks > 1 {
		return usagef("PyTorch runs the loss in one piece here: leave out --loss-chunks, or use --engine host")
	}
	req.CPU = engine.cpuOps
	s, err := study.New(spec, req)
	if err != nil {
		return &inputError{err}
	}
	plan, err := s.Simulate(choice)
	if err != nil {
		return err
	}
	run := study.Run{
		Plan: plan, Engine: engine.name, Device: engine.device, Offered: engine.offered, Tolerance: float64(o.tolerance), Seed: o.seed,
		Notes: append(engine.notes, spec.Warnings...),
	}
	if err := o.measure(cmd, engine, s, &run); err != nil {
		return err
	}
	v := s.Verify(run)
	if err := o.write(cmd, g, report.Verification(v)); err != nil {
		return err
	}
	if o.save != "" {
		if err := exec.Append(o.save, v); err != nil {
			return err
		}
	}
	return v.Err()
}

// subject is the model to run and its plan, from the arguments and flags.
func (o *verifyOptions) subject(cmd *cobra.Command, args []string) (*spec.Spec, study.Choice, error) {
	var none study.Choice
	var file *plan.File
	name := firstOf(args)
	if name != "" {
		var err error
		if file, err = planFile(name); err != nil {
			return nil, none, err
		}
	}
	other := o.model
	switch {
	case len(args) == 2 && file == nil:
		return nil, none, usagef("%s is not a plan file: verify takes MODEL, PLAN, or PLAN and MODEL", name)
	case len(args) == 2 && other != "":
		return nil, none, usagef("the model is named twice: %s and --model %s", args[1], other)
	case file == nil && name != "" && other != "":
		return nil, none, usagef("the model is named twice: %s and --model %s", name, other)
	case file != nil && o.strategy != "":
		return nil, none, usagef("two plans are named: %s and --strategy %s", name, o.strategy)
	case len(args) == 2:
		o.model = args[1]
	case file == nil && name != "":
		o.model = name
	}
	var strategies strategyOptions
	files := map[string]*plan.File{}
	switch {
	case file != nil:
		strategies.names, files[name] = []string{name}, file
	case o.strategy != "":
		strategies.names = []string{o.strategy}
		var err error
		if files, err = strategies.planFiles(); err != nil {
			return nil, none, err
		}
		file = files[o.strategy]
	}
	var known *spec.Spec
	if file != nil && file.Spec != nil {
		known = file.Spec
	}
	if file != nil && known == nil && o.model == "" {
		return nil, none, usagef("the plan file has no spec: name the model it is for with --model")
	}
	spec, err := o.load(cmd, known)
	if err != nil {
		return nil, none, err
	}
	if len(strategies.names) == 0 && (spec.Checkpoint == "" || spec.Checkpoint == "none") {
		strategies.names = []string{"none"}
	}
	choices, err := strategies.choices(spec, o.model, files)
	switch {
	case err != nil:
		return nil, none, err
	case len(choices) != 1:
		return nil, none, usagef("verify runs one strategy at a time, not %s", o.strategy)
	}
	return spec, choices[0], nil
}

func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// planFile reads an argument as a plan file; nil if it is something else.
func planFile(name string) (*plan.File, error) {
	if _, preset := model.PresetName(name); preset && !isPlanFile(name) {
		return nil, nil
	}
	src, err := readInput(name)
	if err != nil {
		return nil, nil // a model's name, or a folder
	}
	f, err := plan.Read(name, src)
	if err != nil && !strings.Contains("\n"+string(src), "\nnodes:") {
		return nil, nil
	}
	return f, err
}

// config is the config.json that the model came from, or nil.
func (o *verifyOptions) config() []byte {
	if o.model == "" {
		return nil
	}
	return hfConfig(o.model)
}

// request studies a step without a budget. Times are for the card of --gpu, else for the device's own card, else for the default.
func (o *verifyOptions) request(d *device) (study.Request, error) {
	b := budgetOptions{gpu: o.card}
	if _, err := gpu.Lookup(d.card); o.card == "" && err == nil {
		b.gpu = d.card
	}
	r, err := b.request()
	r.Budget = 0
	return r, err
}

// measure runs the plan, and the baseline if there is something to compare.
func (o *verifyOptions) measure(cmd *cobra.Command, e *engine, s *study.Study, run *study.Run) error {
	watch := progress(cmd.ErrOrStderr(), fmt.Sprintf("running %s on %s", run.Plan.Name, e.device))
	m, err := o.run(cmd.Context(), e, s, run.Plan, watch.at)
	watch.stop()
	if is[*exec.MemoryError](err) {
		run.Failed = err
		return nil
	}
	if err != nil {
		return err
	}
	run.Steps = m
	if o.noBaseline || !e.values || len(run.Plan.Plan.Nodes) == 0 {
		return nil
	}
	bare, err := plan.Named("none", run.Plan.Timeline.Graph().Layers)
	if err != nil {
		return err
	}
	if run.Baseline, err = s.Simulate(study.Choice{Name: "none", Plan: bare}); err != nil {
		return err
	}
	watch = progress(cmd.ErrOrStderr(), "running the step without checkpointing on "+e.device)
	run.Bare, err = o.run(cmd.Context(), e, s, run.Baseline, watch.at)
	watch.stop()
	switch {
	case is[*exec.MemoryError](err), is[*exec.DeviceError](err), is[*tooLargeError](err):
		run.Bare = nil
		run.Notes = append(run.Notes, "no baseline, so gradients and extra time are not compared: without checkpointing, "+err.Error())
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return fmt.Errorf("the step without checkpointing (left out with --no-baseline): %w", err)
	}
	return nil
}
