package main

import (
	"context"

	"github.com/spf13/cobra"

	"ckptplan/internal/study"
)

// sizes are the values of largest --of, and the flag that each of them replaces.
var sizes = map[string]study.Objective{"batch": study.MaxBatch, "seq": study.MaxSeq}

type largestOptions struct {
	searchOptions
	of string // batch or seq
}

func newLargestCommand(g *globals) *cobra.Command {
	var o largestOptions
	cmd := &cobra.Command{
		Use:   "largest [MODEL] --budget SIZE",
		Short: "Find the largest micro batch, or the longest sequence, that fits",
		Long: `Largest finds the largest micro batch for which some plan fits the budget (--of seq: the longest sequence, in steps of
128 tokens), and the fastest plan for it. No checkpointing and checkpointing every layer are compared with it. MODEL is
as in optimize.

  ckptplan largest llama-3.2-1b --budget 24GB
  ckptplan largest llama-3.2-1b --budget 24GB --of seq --batch 1

The batch that trains the most tokens a second may be a smaller one: ckptplan optimize --objective throughput.

` + exitHelp,
		Args: atMostArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, g, args) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.of, "of", "batch", "size to maximise: batch or seq")
	complete(cmd, "of", "batch", "seq")
	return cmd
}

func (o *largestOptions) run(cmd *cobra.Command, g *globals, args []string) error {
	if err := o.check(cmd, g); err != nil {
		return err
	}
	req, err := o.request()
	if err != nil {
		return err
	}
	by, known := sizes[o.of]
	switch {
	case !known:
		return usagef("--of %q is not one of batch, seq", o.of)
	case req.Budget == 0:
		return usagef("%s needs --budget, such as 24GB, or --gpu", cmd.Name())
	case cmd.Flags().Changed(o.of):
		return usagef("--%s is what the search finds: leave it out", o.of)
	}
	s, err := o.study(cmd, args, req)
	if err != nil {
		return err
	}
	if by == study.MaxSeq && s.Spec.Image != nil {
		return usagef("--of seq: the sequence of %s is its patches, whose number the image size decides", s.Spec.Name)
	}
	return o.answer(cmd, g, s, func(ctx context.Context, s *study.Study) (*study.Optimization, error) { return s.Largest(ctx, by) })
}
