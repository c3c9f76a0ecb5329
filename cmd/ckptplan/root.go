package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckptplan/internal/certificate"
	"ckptplan/internal/document"
	"ckptplan/internal/export"
	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/nearest"
	"ckptplan/internal/plan"
	"ckptplan/internal/report"
	"ckptplan/internal/strategy"
	"ckptplan/internal/study"
)

// Exit codes.
const (
	exitOK          = 0   // done; with several strategies at least one fits, or no budget was given
	exitUnexpected  = 1   // anything that has no code of its own
	exitUsage       = 2   // unknown command, flag, preset, strategy or GPU, or a bad value
	exitInput       = 3   // an input file is not valid, or a plan was made for another model
	exitDoesNotFit  = 4   // no strategy, no plan; the result is on stdout
	exitDiffers     = 5   // measured is not as predicted, or a claim of a certificate is wrong; the result is on stdout
	exitNoDevice    = 6   // no usable device or engine
	exitInterrupted = 130 // Ctrl-C
)

// exitHelp ends the long help of commands that judge a budget.
const exitHelp = `Exit codes: 0 done (with several strategies: at least one fits, or no budget was given), 1 unexpected,
2 usage, 3 invalid input file, 4 does not fit (the result is still printed), 130 interrupted.`

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// inputError is an input file that cannot be used.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// doesNotFit is returned after a result that says that no plan fits was printed.
type doesNotFit struct{ text string }

func (e *doesNotFit) Error() string { return e.text }

// exitCode maps an error to the process's exit code.
func exitCode(err error) int {
	if code, ok := engineExit(err); ok {
		return code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case is[*study.CardError](err):
		return exitUsage
	case is[*doesNotFit](err), is[*strategy.NoPlanError](err):
		return exitDoesNotFit
	case is[*certificate.FailedError](err), is[*study.DifferError](err):
		return exitDiffers
	case is[*inputError](err), is[document.Diagnostics](err), is[*plan.MismatchError](err), unfitPlanFile(err):
		return exitInput
	case is[*usageError](err), is[*model.UnknownPresetError](err), is[*gpu.UnknownError](err), is[*gpu.AmbiguousError](err),
		is[*plan.UnknownStrategyError](err), is[*study.StrategyError](err), is[*export.UnknownTargetError](err), errors.Is(err, strategy.ErrNotChain):
		return exitUsage
	}
	return exitUnexpected
}

// unfitPlanFile is true for a plan file that names parts or ops that the model's layers lack.
func unfitPlanFile(err error) bool {
	var unfit *study.StrategyError
	return errors.As(err, &unfit) && isPlanFile(unfit.Strategy)
}

// is reports whether an error of type E is in err's chain.
func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// message is an error for stderr.
func message(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = report.Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// globals are the settings of every command.
type globals struct {
	config  string // --config
	color   string // --color
	noColor bool   // --no-color
	environ []string
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "ckptplan",
		Short: "Predict the memory of a training step, and plan what to recompute",
		Long: `ckptplan tells, before any GPU is touched, how many bytes a transformer's training step needs, at which instant
and for what, and which activations to recompute so that it fits.

Start with:  ckptplan estimate                                   a GPT of 1.3 billion parameters
             ckptplan estimate llama-3-8b --gpu a100-80gb        a preset on a card
             ckptplan optimize config.json --budget 24GB         the fastest plan that fits`,
		Version:           version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              noSuchCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd); err != nil {
				return err
			}
			return configure(cmd, g)
		},
	}
	root.SetVersionTemplate("ckptplan {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w%s; see %s --help", plainValue(err), nearFlag(cmd, err), cmd.CommandPath())
	})
	root.SuggestionsMinimumDistance = 2 // letters by which a mistyped command may differ
	root.SetGlobalNormalizationFunc(hyphens)
	f := root.PersistentFlags()
	f.StringVar(&g.config, "config", "", "`file` with settings; keys are flag names (default ckptplan/config.yaml in the user's configuration folder)")
	f.StringVar(&g.color, "color", "auto", "colour: auto, always or never")
	f.BoolVar(&g.noColor, "no-color", false, "no colour")
	complete(root, "color", "auto", "always", "never")
	root.AddCommand(newEstimateCommand(g), newOptimizeCommand(g), newFrontierCommand(g), newLargestCommand(g), newVerifyCommand(g), newShowCommand(g), newExportCommand(), newModelsCommand(g), newGPUsCommand(g), newDocsCommand())
	sectioned(root)
	strictTopics(root)
	return root
}

// strictTopics makes an unknown shell or topic an error: cobra would print help, which a script would take for completions.
func strictTopics(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = noSuchCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return usagef("no help for %q; see ckptplan --help", strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}

// nearFlag suggests the flag that an unknown one most likely means.
func nearFlag(cmd *cobra.Command, err error) string {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return ""
	}
	if flag := strings.TrimPrefix(model.FlagOf(missing.GetSpecifiedName()), "--"); flag != "" && cmd.Flags().Lookup(flag) != nil {
		return fmt.Sprintf(" (did you mean --%s?)", flag)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if near := nearest.Name(missing.GetSpecifiedName(), known); near != "" {
		return fmt.Sprintf(" (did you mean --%s?)", near)
	}
	return ""
}

// hyphens makes --keep_logits and --keep-logits the same flag.
func hyphens(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// plainValue names the accepted form of a switch or number in place of the parser's own function name.
func plainValue(err error) error {
	var wrong *pflag.InvalidValueError
	var syntax *strconv.NumError
	if !errors.As(err, &wrong) || !errors.As(err, &syntax) {
		return err
	}
	form := "must be a whole number"
	if wrong.GetFlag().Value.Type() == "bool" {
		form = "must be true or false"
	}
	return fmt.Errorf("invalid argument %q for \"--%s\" flag: %s", wrong.GetValue(), wrong.GetFlag().Name, form)
}

// noSuchCommand refuses arguments of the root or of a command of commands, which are commands that do not exist.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf(" (did you mean %q?)", near[0])
	}
	return usagef("%s; see %s --help", text, cmd.CommandPath())
}

// atMostArgs refuses more than n arguments, and an empty one: that of a shell variable that is not set.
func atMostArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes at most %d argument, not %d: %s", cmd.Name(), n, len(args), strings.Join(args, " "))
		}
		if slices.Contains(args, "") {
			return usagef("%s: the argument is empty: leave it out, or name a model", cmd.Name())
		}
		return nil
	}
}

// notEmpty refuses flags that were given without a value, such as an unset shell variable: the command would run with
// another value than the one meant.
func notEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		empty := f.Value.Type() == "string" && f.Value.String() == "" || isList && len(list.GetSlice()) == 0
		if empty && err == nil {
			err = usagef("--%s is empty: leave it out, or give it a value", f.Name)
		}
	})
	return err
}

// complete names the values of a flag for the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("ckptplan: completion of a flag that does not exist: " + flag)
	}
}
