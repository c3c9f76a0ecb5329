package solve

import (
	"context"
	"errors"
)

// rounded is the chain with every size a multiple of the quantum, none smaller with up, none larger without. Functions
// of memory then have at most budget/quantum steps.
func (c *Chain) rounded(up bool) *Chain {
	q := c.Quantum
	round := func(x int64) int64 {
		if up {
			x += q - 1
		}
		return x - x%q
	}
	r := *c
	r.Quantum = 0
	r.LossGrad = round(c.LossGrad)
	r.Stages, r.Loss = make([]Stage, len(c.Stages)), make([]Choice, len(c.Loss))
	for i, s := range c.Stages {
		s.Output, s.Gradient, s.Grad = round(s.Output), round(s.Gradient), round(s.Grad)
		options := make([]StageOption, len(s.Options))
		for k, o := range s.Options {
			o.Saved, o.ForwardOverhead, o.BackwardOverhead = round(o.Saved), round(o.ForwardOverhead), round(o.BackwardOverhead)
			options[k] = o
		}
		s.Options = options
		r.Stages[i] = s
	}
	for k, o := range c.Loss {
		o.Forward, o.Backward = round(o.Forward), round(o.Backward)
		r.Loss[k] = o
	}
	return &r
}

// solveRounded solves the chain with sizes rounded up, for a plan that fits, and rounded down, for a bound on every
// plan's time. If only exact sizes fit, the answer is exact.
func solveRounded(ctx context.Context, c *Chain) (*NestedSolution, error) {
	exact := *c
	exact.Quantum = 0
	s, err := SolveNested(ctx, c.rounded(true))
	var infeasible *InfeasibleError
	if errors.As(err, &infeasible) {
		return SolveNested(ctx, &exact)
	}
	if err != nil {
		return nil, err
	}
	lower, err := SolveNested(ctx, c.rounded(false))
	if err != nil {
		return nil, err
	}
	s.Peak, s.Time = c.Evaluate(s.Nodes, s.Loss)
	s.Bound, s.Limit = lower.Time, c.Budget
	if s.Bound < s.Time {
		s.Status = Feasible
	}
	return s, nil
}
