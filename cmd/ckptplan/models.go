package main

import (
	"github.com/spf13/cobra"

	"ckptplan/internal/report"
)

func newModelsCommand(g *globals) *cobra.Command {
	var o outputOptions
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the presets",
		Long:  "Models lists the presets that MODEL can name, with their sizes.",
		Args:  atMostArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(g); err != nil {
				return err
			}
			d, err := report.Models()
			if err != nil {
				return err
			}
			return o.write(cmd, g, d)
		},
	}
	o.addFlags(cmd)
	return cmd
}
