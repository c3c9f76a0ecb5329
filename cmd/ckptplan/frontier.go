package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/report"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/study"
)

type frontierOptions struct {
	modelOptions
	budgetOptions
	headOptions
	outputOptions
	plot    string // file for a plot
	quantum sizeFlag
}

func newFrontierCommand(g *globals) *cobra.Command {
	var o frontierOptions
	cmd := &cobra.Command{
		Use:   "frontier [MODEL]",
		Short: "Print the whole trade-off between peak memory and time",
		Long: `Frontier finds every pair of peak and time that no flat plan beats in both, and compares the named strategies with
it. With a budget it marks the fastest plan that fits, and says what 1 GB more would buy. MODEL is as in optimize.

  ckptplan frontier llama-3.2-1b --plot frontier.svg
  ckptplan frontier --budget 24GB

` + exitHelp,
		Args: atMostArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, g, args) },
	}
	o.modelOptions.addFlags(cmd)
	o.budgetOptions.addFlags(cmd)
	o.headOptions.addFlags(cmd)
	o.outputOptions.addFlags(cmd)
	o.addFlags(cmd)
	return cmd
}

func (o *frontierOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.plot, "plot", "", "also draw it to this `file`, .svg or .png")
	cmd.Flags().Var(&o.quantum, "quantum", "round sizes up to multiples of this inside the search, for chains of many different layers (default: exact, or the smallest power of two from 1MiB that keeps the search small)")
}

func (o *frontierOptions) run(cmd *cobra.Command, g *globals, args []string) error {
	if err := o.check(g); err != nil {
		return err
	}
	if o.plot != "" && !slices.Contains(report.PlotFormats, strings.ToLower(filepath.Ext(o.plot))) {
		return usagef("--plot %s: the file name must end in %s", o.plot, strings.Join(report.PlotFormats, " or "))
	}
	if err := o.beside("plot", o.plot); err != nil {
		return err
	}
	req, err := o.budgetOptions.request()
	if err != nil {
		return err
	}
	if err := o.headOptions.request(&req); err != nil {
		return err
	}
	s, err := o.study(cmd, args, req)
	if err != nil {
		return err
	}
	watch := progress(cmd.ErrOrStderr(), "searching")
	f, err := interruptible(cmd.Context(), func() (*study.Frontier, error) { return s.Frontier(cmd.Context(), o.quantum.bytes) })
	watch.stop()
	switch {
	case errors.Is(err, solve.ErrEffort):
		return usagef("--quantum %s: %w: give a larger one", o.quantum.bytes, err)
	case err != nil:
		return err
	}
	if o.plot != "" {
		picture, err := report.Plot(f, o.plot)
		if err != nil {
			return err
		}
		if err := writeWhole(o.plot, picture); err != nil {
			return err
		}
	}
	if err := o.write(cmd, g, report.Frontier(f)); err != nil {
		return err
	}
	if !f.Fits() {
		return &doesNotFit{fmt.Sprintf("no flat plan fits %s", s.Budget.Both())}
	}
	return nil
}
