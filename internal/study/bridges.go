package study

import (
	"context"
	"fmt"

	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// bridges adds what the plan loses since PyTorch cannot bridge, for all micro-batches of a step.
func (o *Optimization) bridges(ctx context.Context, res *strategy.Result, accum int) error {
	gain, known, err := res.BridgeGain(ctx)
	if err != nil {
		return err
	}
	if known {
		gain *= int64(max(1, accum))
		o.BridgeLoss = &gain
	}
	o.Explanation = append(o.Explanation, bridgeWords(o.BridgeLoss, res.Timeline.Times.Step()))
	return nil
}

// bridgeWords is the loss of a plan without bridges, against its step: both in nanoseconds.
func bridgeWords(loss *int64, step int64) string {
	const what = "Bridges, which PyTorch cannot run (what a layer saves is kept while its input is dropped and made again), "
	switch {
	case loss == nil:
		return "What bridges, which PyTorch cannot run, would save is not known: the chain is too long for that search."
	case *loss == 0:
		return what + "would save nothing."
	}
	return what + fmt.Sprintf("would save another %s (%s).", unit.Duration(*loss), unit.Percent(100*float64(*loss)/float64(step)))
}
