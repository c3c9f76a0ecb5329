package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/plan"
	"ckptplan/internal/report"
	"ckptplan/internal/study"
)

// headOptions name changes of head and loss that a search may make.
type headOptions struct {
	allow []string
}

func (o *headOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.allow, "allow", nil, "`changes` of head and loss that the search may make: "+strings.Join(study.HeadChoices, ", "))
	complete(cmd, "allow", study.HeadChoices...)
	section(cmd, searchSection)
}

// request adds the changes to the request.
func (o *headOptions) request(r *study.Request) error {
	for i, a := range o.allow {
		if o.allow[i] = hyphened(a); !slices.Contains(study.HeadChoices, o.allow[i]) {
			return usagef("--allow %s: it is one of %s", a, strings.Join(study.HeadChoices, ", "))
		}
	}
	if len(o.allow) > 0 && r.Budget == 0 {
		return usagef("--allow is for a search under a budget: give --budget or --gpu")
	}
	r.Allow = o.allow
	return nil
}

// searchOptions say what a plan must fit, which plans are searched, and where the plan is written.
type searchOptions struct {
	modelOptions
	budgetOptions
	headOptions
	outputOptions
	class       string // auto, flat or nested
	maxForwards count
	offload     bool
	window      count
	hostMemory  sizeFlag
	plan        string // file for the plan
}

func (o *searchOptions) addFlags(cmd *cobra.Command) {
	o.modelOptions.addFlags(cmd)
	o.budgetOptions.addFlags(cmd)
	o.headOptions.addFlags(cmd)
	o.outputOptions.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "auto", "plans to choose among: flat (each layer on its own), nested (segments inside segments), or auto")
	complete(cmd, "class", "auto", "flat", "nested")
	f.Var(&o.maxForwards, "max-forwards", "most `times` that a nested plan may run a whole layer forward (default: no limit)")
	f.BoolVar(&o.offload, "offload", false, "let layers keep tensors in pinned host memory")
	f.Var(&o.window, "offload-window", "`layers` that may run while a copy to or from the host is under way (default: the compute stream makes the copies)")
	f.Var(&o.hostMemory, "host-memory", "most host memory that offloading may use (default: no limit)")
	section(cmd, searchSection)
	f.StringVarP(&o.plan, "plan", "o", "", "write the plan to this `file`")
	section(cmd, outputSection)
}

// check refuses settings of the search that make no sense, before any work is done.
func (o *searchOptions) check(cmd *cobra.Command, g *globals) error {
	if err := o.outputOptions.check(g); err != nil {
		return err
	}
	for _, flag := range []string{"offload-window", "host-memory"} {
		if cmd.Flags().Changed(flag) && !o.offload {
			return usagef("--%s is for --offload", flag)
		}
	}
	o.class = hyphened(o.class)
	switch {
	case !slices.Contains([]string{"auto", "flat", "nested"}, o.class):
		return usagef("--class %q is not one of auto, flat, nested", o.class)
	case o.maxForwards < 0 || o.maxForwards == 0 && cmd.Flags().Changed("max-forwards"):
		return usagef("--max-forwards %d: it is a whole number of at least 1", o.maxForwards)
	case o.maxForwards > 0 && o.class == "flat":
		return usagef("--max-forwards is for nested plans: --class auto or nested")
	}
	return o.beside("plan", o.plan)
}

// beside refuses a second file that could not be written after the search, or that would overwrite the result.
func (o *outputOptions) beside(flag, file string) error {
	if file != "" && o.file != "" && filepath.Clean(file) == filepath.Clean(o.file) {
		return usagef("--%s and --output are the same file, %s", flag, file)
	}
	return placeOf(flag, file)
}

// request is the device, the plans and the target that the step is studied for.
func (o *searchOptions) request() (study.Request, error) {
	r, err := o.budgetOptions.request()
	if err != nil {
		return r, err
	}
	r.Class, r.MaxForwards = o.class, int(o.maxForwards)
	r.Offload, r.OffloadWindow, r.HostMemory = o.offload, int(o.window), o.hostMemory.bytes
	return r, o.headOptions.request(&r)
}

// answer asks for a plan and writes it.
func (o *searchOptions) answer(cmd *cobra.Command, g *globals, s *study.Study, ask func(context.Context, *study.Study) (*study.Optimization, error)) error {
	watch := progress(cmd.ErrOrStderr(), "searching")
	result, err := interruptible(cmd.Context(), func() (*study.Optimization, error) { return ask(cmd.Context(), s) })
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
	if err := o.write(cmd, g, report.Optimization(result)); err != nil {
		return err
	}
	if !result.Feasible() {
		return &doesNotFit{result.Reason}
	}
	return nil
}

// hyphened is a value's name as it is listed: drop_logits is drop-logits.
func hyphened(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }
