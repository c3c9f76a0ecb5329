package main

import (
	"bytes"
	"slices"

	"github.com/spf13/cobra"

	"ckptplan/internal/plan"
	"ckptplan/internal/report"
	"ckptplan/internal/unit"
)

type optimizeOptions struct {
	modelOptions
	budgetOptions
	outputOptions
	class     string // auto, flat or nested
	objective string
	global    count
	plan      string // file for the plan
}

func newOptimizeCommand(g *globals) *cobra.Command {
	var o optimizeOptions
	cmd := &cobra.Command{
		Use:   "optimize [MODEL]",
		Short: "Find the fastest plan that fits a memory budget",
		Long: `Optimize chooses for every layer what to keep and what to recompute, so that the training step fits the budget and
takes the least time. The named strategies are held against the same budget. MODEL is a preset (ckptplan models), a
YAML spec or a Hugging Face config.json; without one, ` + defaultPreset + ` is planned.

  ckptplan optimize llama-3.2-1b --budget 24GB -o plan.yaml
  ckptplan estimate llama-3.2-1b --strategy plan.yaml

` + exitHelp,
		Args: atMostArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.model = args[0]
			}
			return runOptimize(cmd, g, &o)
		},
	}
	o.modelOptions.addFlags(cmd)
	o.budgetOptions.addFlags(cmd)
	cmd.Flags().StringVar(&o.class, "class", "auto", "plans to choose among: flat (each layer on its own), nested (segments inside segments), or auto")
	complete(cmd, "class", "auto", "flat", "nested")
	cmd.Flags().StringVar(&o.objective, "objective", "time", "time (the fastest step), throughput (the micro batch is chosen, too) or memory (the lowest peak, with or without a budget)")
	complete(cmd, "objective", "time", "throughput", "memory")
	cmd.Flags().Var(&o.global, "global-batch", "`sequences` a step that accumulation makes up, for --objective throughput")
	cmd.Flags().StringVarP(&o.plan, "plan", "o", "", "write the plan to this `file`")
	o.outputOptions.addFlags(cmd)
	return cmd
}

func runOptimize(cmd *cobra.Command, g *globals, o *optimizeOptions) error {
	if err := o.check(g); err != nil {
		return err
	}
	card, err := o.card()
	if err != nil {
		return err
	}
	device := o.device(card)
	if err := o.checkSearch(cmd, device); err != nil {
		return err
	}
	spec, err := o.load(cmd, nil)
	if err != nil {
		return err
	}
	study, err := report.NewStudy(spec, card.Sheet)
	if err != nil {
		return &inputError{err}
	}
	result, err := study.Optimize(cmd.Context(), report.OptimizeRequest{
		Class: o.class, Objective: report.Objective(o.objective), GlobalBatch: int(o.global), Card: card, Device: device, Reserve: o.kept(), Tool: version(),
	})
	if err != nil {
		return err
	}
	if o.plan != "" && result.Feasible() {
		var b bytes.Buffer
		if err := plan.Write(&b, result.Plan); err != nil {
			return err
		}
		if err := writeWhole(o.plan, b.Bytes()); err != nil {
			return err
		}
	}
	if err := o.write(cmd, g, result.Document()); err != nil {
		return err
	}
	if !result.Feasible() {
		return &doesNotFit{result.Reason}
	}
	return nil
}

// checkSearch refuses settings of the search that make no sense.
func (o *optimizeOptions) checkSearch(cmd *cobra.Command, device unit.Bytes) error {
	objective := report.Objective(o.objective)
	switch {
	case !slices.Contains([]string{"auto", "flat", "nested"}, o.class):
		return usagef("--class %q is not one of auto, flat, nested", o.class)
	case !slices.Contains(report.Objectives, objective):
		return usagef("--objective %q is not one of time, throughput, memory", o.objective)
	case device == 0 && objective != report.Memory:
		return usagef("optimize needs --budget, such as 24GB, or --gpu")
	case o.global < 0:
		return usagef("--global-batch %d: it is a whole number of at least 1", o.global)
	case o.global > 0 && objective != report.Throughput:
		return usagef("--global-batch is for --objective throughput")
	case objective == report.Throughput && (cmd.Flags().Changed("batch") || cmd.Flags().Changed("grad-accum")):
		return usagef("--objective throughput chooses the micro batch: give --global-batch instead of --batch and --grad-accum")
	}
	return nil
}
