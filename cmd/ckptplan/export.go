package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/export"
	"ckptplan/internal/plan"
)

func newExportCommand() *cobra.Command {
	var target, file string
	cmd := &cobra.Command{
		Use:   "export PLAN",
		Short: "Write the lines that make a trainer run a plan",
		Long: `Export reads a plan file that optimize wrote and prints what goes into the trainer. Target torch is a Python
file whose function apply makes a Hugging Face model run exactly this plan, whatever its regions; the other targets
print the trainer's own settings, and refuse a plan that these cannot express.

Exit codes: 0 done, 1 unexpected, 2 usage, 3 the file is not a valid plan, or not one that the target can run.`,
		Example: `  ckptplan optimize gpt2 --seq 1024 --budget 4GB --plan plan.yaml
  ckptplan export plan.yaml --target torch -o checkpoint_plan.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("export takes one plan file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if target == "" {
				return usagef("export needs --target, one of %s", strings.Join(targetNames(), ", "))
			}
			t, err := export.FindTarget(target)
			if err != nil {
				return &usageError{err}
			}
			if err := placeOf("output", file); err != nil {
				return err
			}
			src, err := readInput(args[0])
			if err != nil {
				return unreadable(args[0], err)
			}
			f, err := plan.Read(args[0], src)
			if err != nil {
				return err
			}
			text, err := export.Text(f, t)
			if err != nil {
				return &inputError{fmt.Errorf("%s: %w", args[0], err)}
			}
			if file != "" && file != "-" {
				return writeWhole(file, []byte(text))
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&target, "target", "", "`trainer` that is to run the plan: "+strings.Join(targetNames(), ", "))
	f.StringVarP(&file, "output", "o", "", "write to this `file` instead of stdout, completely or not at all")
	_ = cmd.RegisterFlagCompletionFunc("target", completeTarget)
	return cmd
}

func targetNames() []string {
	var names []string
	for i := range export.Targets {
		names = append(names, export.Targets[i].Name)
	}
	slices.Sort(names)
	return names
}
