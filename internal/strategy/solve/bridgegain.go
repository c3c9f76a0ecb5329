package solve

import (
	"context"
	"errors"
)

// Steps of functions that the search for a gain from bridges may look at: some tenths of a second. Where it is expected
// to take more it does not begin.
const (
	bridgeSteps    = 20_000_000
	bridgeExpected = 10_000_000
)

// BridgeGain is by how many nanoseconds a chain's plan would be faster with bridges.
func BridgeGain(ctx context.Context, c *Chain, without *NestedSolution) (gain int64, known bool, err error) {
	most := int64(0)
	for i := range c.Stages {
		may := int64(0)
		for _, o := range c.Stages[i].Options {
			if o.Bridge {
				may++
			}
		}
		most = max(most, may)
	}
	if most == 0 {
		return 0, true, nil
	}
	// A function for each option that may bridge, with as many more alternatives; the window leaves a thirtieth of them,
	// as found with chains of 16 to 32 layers.
	if without.Steps*(1+most)*(1+most)/30 > bridgeExpected {
		return 0, false, nil
	}
	d := *c
	d.Bridges, d.Budget = true, without.Limit
	s := newNestedSolver(&d, false)
	s.window = newWindow(s, without.Bound, bridgeSteps)
	if err := s.fill(ctx); err != nil {
		if errors.Is(err, errTooMuchWork) {
			err = nil
		}
		return 0, false, err
	}
	top := s.top()
	return without.Bound - top[len(top)-1].t, true, nil
}
