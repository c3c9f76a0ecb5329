package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/model/spec"
	"ckptplan/internal/report"
	"ckptplan/internal/study"
)

type estimateOptions struct {
	modelOptions
	strategyOptions
	budgetOptions
	outputOptions
	explain bool
}

func newEstimateCommand(g *globals) *cobra.Command {
	var o estimateOptions
	cmd := &cobra.Command{
		Use:   "estimate [MODEL]",
		Short: "Predict the memory and the time of a training step",
		Long: `Estimate walks two training steps of the model, op by op, and reports the highest instant of the second: how many
bytes, where, and held by what. MODEL is a preset (ckptplan models), a YAML spec or a Hugging Face config.json; without
one, ` + defaultPreset + ` is estimated. Without --strategy it compares ` + `none, selective, every-2, sqrt and full.

  ckptplan estimate llama-3-8b --strategy full --gpu a100-80gb
  ckptplan estimate config.json --batch 4 --seq 4096 --budget 24GB --format json

Strategies: none, full, every-K, first-K, last-K, segments-K, sqrt, nested-K, selective, selective-attn, selective-mlp,
offload, offload-inputs, a plan file, or all.

` + exitHelp,
		Args: atMostArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.model = args[0]
			}
			return runEstimate(cmd, g, &o)
		},
	}
	o.modelOptions.addFlags(cmd)
	o.budgetOptions.addFlags(cmd)
	o.outputOptions.addFlags(cmd)
	cmd.Flags().StringSliceVar(&o.names, "strategy", nil, "strategies or plan files, separated by commas")
	complete(cmd, "strategy", "all", "none", "full", "sqrt", "every-2", "selective", "selective-attn", "selective-mlp", "offload", "offload-inputs")
	cmd.Flags().BoolVar(&o.explain, "explain", false, "also list assumptions, the tensors alive at the peak, and the reserve")
	return cmd
}

func runEstimate(cmd *cobra.Command, g *globals, o *estimateOptions) error {
	if err := o.check(g); err != nil {
		return err
	}
	req, err := o.request()
	if err != nil {
		return err
	}
	files, err := o.planFiles()
	if err != nil {
		return err
	}
	var known *spec.Spec
	for _, name := range o.names {
		if f := files[name]; f != nil && known == nil {
			known = f.Spec // without MODEL a plan is estimated for its own
		}
	}
	if len(files) > 0 && known == nil && o.model == "" {
		return usagef("the plan file has no spec: name the model it is for")
	}
	spec, err := o.load(cmd, known)
	if err != nil {
		return err
	}
	choices, err := o.choices(spec, o.model, files)
	if err != nil {
		return err
	}
	s, err := interruptible(cmd.Context(), func() (*study.Study, error) { return study.New(spec, req) })
	if err != nil {
		return &inputError{err}
	}
	detail, document := study.Usual, report.Estimation
	switch {
	case strings.EqualFold(o.format, string(report.CSV)):
		detail, document = study.Rows, report.EstimationRows
	case o.explain:
		detail = study.Whole
	}
	e, err := interruptible(cmd.Context(), func() (*study.Estimation, error) { return s.Estimate(cmd.Context(), choices, detail) })
	if err != nil {
		return err
	}
	if err := o.write(cmd, g, document(e)); err != nil {
		return err
	}
	if e.OOM() {
		what := "none of these strategies fits"
		if len(choices) == 1 {
			what = choices[0].Name + " does not fit"
		}
		return &doesNotFit{fmt.Sprintf("%s %s", what, req.Budget.Both())}
	}
	return nil
}
