package strategy

import (
	"context"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// Baselines are the named strategies that every plan is compared with.
var Baselines = []string{"none", "selective", "selective-attn", "selective-mlp", "every-2", "sqrt", "full"}

// Alternative is a named strategy under the same budget.
type Alternative struct {
	Name     string
	Timeline *memory.Timeline
	Fits     bool
}

// baselines simulates the named strategies, leaving out parts and Ks that the model does not have.
func (g graphs) baselines(ctx context.Context, req Request) ([]Alternative, error) {
	var out []Alternative
	for _, name := range Baselines {
		if a, err := g.baseline(ctx, name, req.Sheet, req.tensors()); err == nil {
			out = append(out, a)
		}
	}
	return out, ctx.Err()
}

// baseline simulates a named strategy.
func (g graphs) baseline(ctx context.Context, name string, sheet *gpu.Sheet, tensor unit.Bytes) (Alternative, error) {
	pl, err := plan.Named(name, g.of("full").Graph.Layers)
	if err != nil {
		return Alternative{}, err
	}
	tl, err := g.judge(ctx, pl, sheet)
	if err != nil {
		return Alternative{}, err
	}
	return Alternative{Name: name, Timeline: tl, Fits: unit.Bytes(tl.Peak.Bytes) <= tensor}, nil
}
