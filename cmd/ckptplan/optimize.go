package main

import (
	"bytes"
	"slices"

	"github.com/spf13/cobra"

	"ckptplan/internal/plan"
	"ckptplan/internal/report"
)

type optimizeOptions struct {
	modelOptions
	budgetOptions
	outputOptions
	class string // auto, flat or nested
	plan  string // file for the plan
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
	if !slices.Contains([]string{"auto", "flat", "nested"}, o.class) {
		return usagef("--class %q is not one of auto, flat, nested", o.class)
	}
	device := o.device(card)
	if device == 0 {
		return usagef("optimize needs --budget, such as 24GB, or --gpu")
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
		Class: o.class, Card: card, Device: device, Reserve: o.kept(), Tool: version(),
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
