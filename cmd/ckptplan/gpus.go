package main

import (
	"github.com/spf13/cobra"

	"ckptplan/internal/gpu"
	"ckptplan/internal/gpu/cuda"
	"ckptplan/internal/report"
)

func newGPUsCommand(g *globals) *cobra.Command {
	var o outputOptions
	cmd := &cobra.Command{
		Use:   "gpus",
		Short: "List the cards with a data sheet, and the devices of this machine",
		Long:  "Gpus lists the cards that --gpu can name, with the figures of their data sheets, and the CUDA devices of this machine.",
		Args:  atMostArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(g); err != nil {
				return err
			}
			devices, err := cuda.Discover()
			d := report.GPUs(gpu.Sheets(), devices, err)
			for _, dev := range devices {
				_ = dev.Close() // nothing was allocated on it
			}
			return o.write(cmd, g, d)
		},
	}
	o.addFlags(cmd)
	return cmd
}
