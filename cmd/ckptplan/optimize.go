package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckptplan/internal/export"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/study"
)

// objectives are the values of --objective.
var objectives = []string{string(study.Fastest), string(study.Throughput), string(study.Memory)}

type optimizeOptions struct {
	searchOptions
	objective string
	target    string
	global    count
	moved     movedOptions
}

// movedOptions are flags of optimize that have become the commands frontier and largest.
type movedOptions struct {
	frontier bool
	frontierOptions
}

func newOptimizeCommand(g *globals) *cobra.Command {
	var o optimizeOptions
	cmd := &cobra.Command{
		Use:   "optimize [MODEL] --budget SIZE",
		Short: "Find the fastest plan that fits a memory budget",
		Long: `Optimize chooses for every layer what to keep and what to recompute, so that the training step fits the budget and
takes the least time. The named strategies are compared with it. MODEL is a preset (ckptplan models), a YAML spec or a
Hugging Face config.json; without one, ` + defaultPreset + ` is planned.

  ckptplan optimize llama-3.2-1b --budget 24GB -o plan.yaml
  ckptplan estimate llama-3.2-1b --strategy plan.yaml
  ckptplan optimize --budget 24GB --target torchtune

The plan file holds a certificate that says why no plan of the class is faster: ckptplan show plan.yaml --check.
See also: ckptplan frontier (peak against time), ckptplan largest (the largest batch or sequence).

With --target the plan is one that the trainer's own knobs can run, and the cost of that restriction is printed:
` + targetHelp() + `

` + exitHelp,
		Args: atMostArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, g, args) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.objective, "objective", "time", "time (the fastest step), throughput (the micro batch is chosen as well) or memory (the lowest peak, with or without a budget)")
	complete(cmd, "objective", objectives...)
	f.StringVar(&o.target, "target", "", "`trainer` that must be able to run the plan with its own knobs")
	_ = cmd.RegisterFlagCompletionFunc("target", completeTarget)
	f.Var(&o.global, "global-batch", "`sequences` per step, reached by accumulation, for --objective throughput")
	f.BoolVar(&o.moved.frontier, "frontier", false, "see ckptplan frontier")
	o.moved.addFlags(cmd)
	for _, flag := range []string{"frontier", "plot", "quantum"} {
		f.Lookup(flag).Hidden = true
	}
	return cmd
}

func (o *optimizeOptions) run(cmd *cobra.Command, g *globals, args []string) error {
	o.objective = hyphened(o.objective)
	if done, err := o.runMoved(cmd, g, args); done || err != nil {
		return err
	}
	if err := o.check(cmd, g); err != nil {
		return err
	}
	req, err := o.request()
	if err != nil {
		return err
	}
	if err := o.checkObjective(cmd, req); err != nil {
		return err
	}
	if o.target != "" {
		if req.Target, err = export.FindTarget(o.target); err != nil {
			return err
		}
	}
	s, err := o.study(cmd, args, req)
	if err != nil {
		return err
	}
	if err := o.checkGlobal(s.Spec); err != nil {
		return err
	}
	return o.answer(cmd, g, s, o.ask)
}

// ask puts the question of the objective.
func (o *optimizeOptions) ask(ctx context.Context, s *study.Study) (*study.Optimization, error) {
	switch study.Objective(o.objective) {
	case study.Memory:
		return s.Leanest(ctx)
	case study.Throughput:
		return s.Throughput(ctx, int(o.global))
	}
	return s.Optimize(ctx)
}

// checkObjective refuses settings that do not go with the objective.
func (o *optimizeOptions) checkObjective(cmd *cobra.Command, req study.Request) error {
	given := cmd.Flags().Changed
	objective := study.Objective(o.objective)
	switch {
	case !slices.Contains(objectives, o.objective):
		return usagef("--objective %q is not one of %s", o.objective, strings.Join(objectives, ", "))
	case req.Budget == 0 && objective != study.Memory:
		return usagef("optimize needs --budget, such as 24GB, or --gpu; without a budget, use ckptplan frontier or --objective memory")
	case o.target != "" && objective != study.Fastest:
		return usagef("--target is for --objective time")
	case o.global < 0:
		return usagef("--global-batch %d: it is a whole number of at least 1", o.global)
	case o.global > 0 && objective != study.Throughput:
		return usagef("--global-batch is for --objective throughput")
	case objective == study.Throughput && (given("batch") || given("grad-accum")):
		return usagef("--objective throughput chooses the micro batch: give --global-batch instead of --batch and --grad-accum")
	}
	return nil
}

// checkGlobal refuses a global batch that would take more micro batches than anyone would run.
func (o *optimizeOptions) checkGlobal(spec *spec.Spec) error {
	if o.global == 0 {
		return nil
	}
	one := 1
	if _, err := study.Vary(spec, model.Overrides{Batch: &one, GradAccum: (*int)(&o.global)}); err != nil {
		return usagef("--global-batch: %w", err)
	}
	return nil
}

// runMoved runs the command that has replaced a flag of optimize, and says which one it is.
func (o *optimizeOptions) runMoved(cmd *cobra.Command, g *globals, args []string) (done bool, err error) {
	note := func(now string) { fmt.Fprintf(cmd.ErrOrStderr(), "ckptplan: note: this is now ckptplan %s\n", now) }
	switch of, largest := strings.CutPrefix(o.objective, "max-"); {
	case o.moved.frontier:
		if err := fits(cmd, "frontier"); err != nil {
			return true, err
		}
		if o.objective != "time" || o.class == "nested" {
			return true, usagef("frontier covers flat plans, peak against time: leave out --objective and --class")
		}
		f := o.moved.frontierOptions
		f.modelOptions, f.budgetOptions, f.headOptions, f.outputOptions = o.modelOptions, o.budgetOptions, o.headOptions, o.outputOptions
		note("frontier")
		return true, f.run(cmd, g, args)
	case largest && (of == "batch" || of == "seq"):
		if err := fits(cmd, "largest"); err != nil {
			return true, err
		}
		note("largest --of " + of)
		return true, (&largestOptions{o.searchOptions, of}).run(cmd, g, args)
	}
	for _, flag := range []string{"plot", "quantum"} {
		if cmd.Flags().Changed(flag) {
			return true, usagef("--%s is for ckptplan frontier", flag)
		}
	}
	return false, nil
}

// fits refuses flags that the replacing command does not have.
func fits(cmd *cobra.Command, name string) (err error) {
	for _, c := range cmd.Parent().Commands() {
		if c.Name() != name {
			continue
		}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if c.Flag(f.Name) == nil && !slices.Contains([]string{"frontier", "objective", "class"}, f.Name) && err == nil {
				err = usagef("--%s is not for ckptplan %s", f.Name, name)
			}
		})
	}
	return err
}

// targetHelp lists the trainers, wrapped for the help.
func targetHelp() string {
	var b strings.Builder
	width := 0
	for i := range export.Targets {
		name := export.Targets[i].Name
		if i > 0 {
			b.WriteByte(',')
			width++
		}
		if width += len(name) + 1; i == 0 || width > 110 {
			b.WriteString("\n  ")
			width = len(name) + 2
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(name)
	}
	return strings.TrimPrefix(b.String(), "\n") + "."
}

// completeTarget offers the trainers.
func completeTarget(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for i := range export.Targets {
		names = append(names, export.Targets[i].Name+"\t"+export.Targets[i].Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
