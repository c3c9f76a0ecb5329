package strategy

import (
	"context"

	"ckptplan/internal/strategy/solve"
)

// BridgeGain is by how many nanoseconds a micro-batch would be faster if plans could bridge: keep what a layer saves
// while the layer's input, which that must not contain, is dropped and made again. It holds SolveNested's class with
// bridges against that without, under the same limit and by the same prices. PyTorch has no form for a bridge, so that
// this is what that restriction loses. known is false for a plan that is not nested, and where the chain is too long for
// the search.
func (r *Result) BridgeGain(ctx context.Context) (gain int64, known bool, err error) {
	if r.Class != "nested" || r.Nested == nil || r.nested == nil || r.Nested.Nodes == nil {
		return 0, false, nil
	}
	return solve.BridgeGain(ctx, r.nested.chain, r.Nested)
}
