package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/report"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

type optimizeOptions struct {
	modelOptions
	budgetOptions
	outputOptions
	class       string // auto, flat or nested
	maxForwards count
	offload     bool
	window      count
	hostMemory  sizeFlag
	allow       []string // changes of head and loss
	objective   string
	target      string
	global      count
	plan        string // file for the plan
	frontier    bool
	plot        string // file for a plot of the frontier
	quantum     sizeFlag
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
  ckptplan optimize --budget 24GB --target torchtune
  ckptplan optimize --frontier --plot frontier.svg

The plan file holds a certificate that says why no plan of the class is faster: ckptplan show plan.yaml --check.

With --target the plan is one that the trainer's own knobs can run, and the price of that restriction is printed:
` + targetHelp() + `

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
	cmd.Flags().Var(&o.maxForwards, "max-forwards", "most `times` that a layer runs forward as a whole in a nested plan (default: no bound)")
	cmd.Flags().BoolVar(&o.offload, "offload", false, "let layers keep tensors in pinned host memory")
	cmd.Flags().Var(&o.window, "offload-window", "`layers` that may run while a copy to or from the host is under way (default: the compute stream makes the copies)")
	cmd.Flags().Var(&o.hostMemory, "host-memory", "most host memory that offloading may take (default: no cap)")
	cmd.Flags().StringSliceVar(&o.allow, "allow", nil, "`changes` of head and loss to choose among, too: "+strings.Join(strategy.HeadChoices, ", "))
	complete(cmd, "allow", strategy.HeadChoices...)
	cmd.Flags().StringVar(&o.objective, "objective", "time", "time (the fastest step), throughput (the micro batch is chosen, too), memory (the lowest peak, with or without a budget), max-batch or max-seq (the largest that fits)")
	complete(cmd, "objective", strings.Split(objectiveNames(), ", ")...)
	cmd.Flags().StringVar(&o.target, "target", "", "`trainer` that has to run the plan with its own knobs")
	_ = cmd.RegisterFlagCompletionFunc("target", completeTarget)
	cmd.Flags().Var(&o.global, "global-batch", "`sequences` a step that accumulation makes up, for --objective throughput")
	cmd.Flags().StringVarP(&o.plan, "plan", "o", "", "write the plan to this `file`")
	f := cmd.Flags()
	f.BoolVar(&o.frontier, "frontier", false, "print the whole trade-off between peak and time of flat plans instead of one plan")
	f.StringVar(&o.plot, "plot", "", "with --frontier: also draw it to this `file`, .svg or .png")
	f.Var(&o.quantum, "quantum", "with --frontier: round sizes up to multiples of this inside the search, for chains of many different layers (default: exact, or the least power of two from 1MiB for which the search does not grow too large)")
	o.outputOptions.addFlags(cmd)
	return cmd
}

func runOptimize(cmd *cobra.Command, g *globals, o *optimizeOptions) error {
	if err := o.check(g); err != nil {
		return err
	}
	o.class, o.objective = hyphened(o.class), hyphened(o.objective)
	card, err := o.card()
	if err != nil {
		return err
	}
	device := o.device(card)
	if err := o.checkSearch(cmd, device); err != nil {
		return err
	}
	if err := o.checkPlaces(); err != nil {
		return err
	}
	var target *strategy.Target
	if o.target != "" {
		if target, err = strategy.FindTarget(o.target); err != nil {
			return err
		}
	}
	spec, err := o.load(cmd, nil)
	if err != nil {
		return err
	}
	if err := o.checkGlobal(spec); err != nil {
		return err
	}
	if o.objective == string(report.MaxSeq) && spec.Image != nil {
		return usagef("--objective max-seq: the sequence of %s is its patches, which the image's size decides", spec.Name)
	}
	if err := o.checkAllow(device); err != nil {
		return err
	}
	if o.frontier {
		return o.runFrontier(cmd, g, spec, report.FrontierRequest{Card: card, Device: device, Reserve: o.kept(), Quantum: o.quantum.bytes})
	}
	if _, err := report.NewStudy(spec, card.Sheet); err != nil {
		return &inputError{err}
	}
	watch := progress(cmd.ErrOrStderr(), "searching")
	result, err := report.OptimizeHead(cmd.Context(), spec, card.Sheet, o.allow, report.OptimizeRequest{
		Class: o.class, MaxForwards: int(o.maxForwards),
		Offload: o.offload, Window: int(o.window), HostMemory: o.hostMemory.bytes, Objective: report.Objective(o.objective), Target: target, GlobalBatch: int(o.global),
		Card: card, Device: device, Reserve: o.kept(), Tool: version(),
	})
	watch.stop()
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

// checkAllow refuses choices of head and loss that there are not.
func (o *optimizeOptions) checkAllow(device unit.Bytes) error {
	for i, a := range o.allow {
		if o.allow[i] = hyphened(a); !slices.Contains(strategy.HeadChoices, o.allow[i]) {
			return usagef("--allow %s: it is one of %s", a, strings.Join(strategy.HeadChoices, ", "))
		}
	}
	if len(o.allow) > 0 && device == 0 {
		return usagef("--allow is for a search under a budget: give --budget or --gpu")
	}
	return nil
}

// runFrontier prints the trade-off between peak and time.
func (o *optimizeOptions) runFrontier(cmd *cobra.Command, g *globals, spec *model.Spec, req report.FrontierRequest) error {
	sheet := req.Card.Sheet
	if len(o.allow) > 0 {
		h, err := strategy.ChooseHead(cmd.Context(), spec, strategy.Request{Budget: req.Device, Reserve: req.Reserve, Sheet: sheet, Class: "flat"}, o.allow)
		if err != nil {
			return err
		}
		spec = report.WithHead(spec, h)
	}
	study, err := report.NewStudy(spec, sheet)
	if err != nil {
		return &inputError{err}
	}
	watch := progress(cmd.ErrOrStderr(), "searching")
	f, err := study.Frontier(cmd.Context(), req)
	watch.stop()
	switch {
	case errors.Is(err, strategy.ErrEffort):
		return usagef("--quantum %s: %w: give a larger one", o.quantum.bytes, err)
	case err != nil:
		return err
	}
	if o.plot != "" {
		picture, err := f.Plot(o.plot)
		if err != nil {
			return err
		}
		if err := writeWhole(o.plot, picture); err != nil {
			return err
		}
	}
	if err := o.write(cmd, g, f.Document()); err != nil {
		return err
	}
	if !f.Fits() {
		return &doesNotFit{fmt.Sprintf("no flat plan fits %s", req.Device.Both())}
	}
	return nil
}

// checkFrontier refuses settings that do not go with --frontier, or only with it.
func (o *optimizeOptions) checkFrontier(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if !o.frontier {
		for _, flag := range []string{"plot", "quantum"} {
			if given(flag) {
				return usagef("--%s is for --frontier", flag)
			}
		}
		return nil
	}
	for _, flag := range []string{"plan", "target", "max-forwards", "global-batch", "offload", "offload-window", "host-memory"} {
		if given(flag) {
			return usagef("--%s is for one plan: leave out --frontier", flag)
		}
	}
	switch {
	case report.Objective(o.objective) != report.Fastest:
		return usagef("--frontier holds peak against time: leave out --objective")
	case o.class == "nested":
		return usagef("--frontier is of flat plans")
	case o.plot != "" && !slices.Contains(report.PlotFormats, strings.ToLower(filepath.Ext(o.plot))):
		return usagef("--plot %s: the file's name has to end in %s", o.plot, strings.Join(report.PlotFormats, " or "))
	}
	return nil
}

// checkSearch refuses settings of the search that make no sense.
func (o *optimizeOptions) checkSearch(cmd *cobra.Command, device unit.Bytes) error {
	if err := o.checkFrontier(cmd); err != nil {
		return err
	}
	objective := report.Objective(o.objective)
	for _, flag := range []string{"offload-window", "host-memory"} {
		if cmd.Flags().Changed(flag) && !o.offload {
			return usagef("--%s is for --offload", flag)
		}
	}
	switch {
	case !slices.Contains([]string{"auto", "flat", "nested"}, o.class):
		return usagef("--class %q is not one of auto, flat, nested", o.class)
	case o.maxForwards < 0 || o.maxForwards == 0 && cmd.Flags().Changed("max-forwards"):
		return usagef("--max-forwards %d: it is a whole number of at least 1", o.maxForwards)
	case o.maxForwards > 0 && o.class == "flat":
		return usagef("--max-forwards is for nested plans: --class auto or nested")
	case !slices.Contains(report.Objectives, objective):
		return usagef("--objective %q is not one of %s", o.objective, objectiveNames())
	case device == 0 && objective != report.Memory && !o.frontier:
		return usagef("optimize needs --budget, such as 24GB, or --gpu; without a budget there are --frontier and --objective memory")
	case o.target != "" && objective != report.Fastest:
		return usagef("--target is for --objective time")
	case o.global < 0:
		return usagef("--global-batch %d: it is a whole number of at least 1", o.global)
	case o.global > 0 && objective != report.Throughput:
		return usagef("--global-batch is for --objective throughput")
	case objective == report.Throughput && (cmd.Flags().Changed("batch") || cmd.Flags().Changed("grad-accum")):
		return usagef("--objective throughput chooses the micro batch: give --global-batch instead of --batch and --grad-accum")
	case objective == report.MaxBatch && cmd.Flags().Changed("batch"):
		return usagef("--objective max-batch chooses the micro batch: leave --batch out")
	case objective == report.MaxSeq && cmd.Flags().Changed("seq"):
		return usagef("--objective max-seq chooses the sequence length: leave --seq out")
	}
	return nil
}

// checkGlobal refuses a global batch that no number of micro batches makes up in a lifetime.
func (o *optimizeOptions) checkGlobal(spec *model.Spec) error {
	if o.global == 0 {
		return nil
	}
	probe, one := *spec, 1
	if err := model.Override(&probe, model.Overrides{Batch: &one, GradAccum: (*int)(&o.global)}); err != nil {
		return usagef("--global-batch: %w", err)
	}
	return nil
}

// checkPlaces refuses files that could not be written after the search, or would be written over each other.
func (o *optimizeOptions) checkPlaces() error {
	if o.plan != "" && o.file != "" && filepath.Clean(o.plan) == filepath.Clean(o.file) {
		return usagef("--plan and --output are the same file, %s", o.plan)
	}
	if o.plot != "" && o.file != "" && filepath.Clean(o.plot) == filepath.Clean(o.file) {
		return usagef("--plot and --output are the same file, %s", o.plot)
	}
	if err := placeOf("plan", o.plan); err != nil {
		return err
	}
	return placeOf("plot", o.plot)
}

func objectiveNames() string {
	var names []string
	for _, o := range report.Objectives {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// hyphened is a name of a value as it is listed: max_batch is max-batch.
func hyphened(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// targetHelp lists the trainers, wrapped for the help.
func targetHelp() string {
	var b strings.Builder
	width := 0
	for i := range strategy.Targets {
		name := strategy.Targets[i].Name
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
	for i := range strategy.Targets {
		names = append(names, strategy.Targets[i].Name+"\t"+strategy.Targets[i].Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
