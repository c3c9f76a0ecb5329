package main

import (
	"os"

	"github.com/spf13/cobra"

	"ckptplan/internal/plan"
	"ckptplan/internal/report"
)

func newShowCommand(g *globals) *cobra.Command {
	var o outputOptions
	cmd := &cobra.Command{
		Use:   "show PLAN",
		Short: "Print a plan file",
		Long: `Show reads a plan file that optimize wrote, or one written by hand, and prints what it says.

Exit codes: 0 done, 1 unexpected, 2 usage, 3 the file is no valid plan.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("show takes one plan file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(g); err != nil {
				return err
			}
			src, err := os.ReadFile(args[0])
			if err != nil {
				return usagef("%w", err)
			}
			f, err := plan.Read(args[0], src)
			if err != nil {
				return err
			}
			return o.write(cmd, g, report.Show(f))
		},
	}
	o.addFlags(cmd)
	return cmd
}
