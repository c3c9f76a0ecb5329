package strategy

import (
	"context"
	"errors"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// slack is the most by which forward rows overstate. Tensors that a block leaves to the next one are counted there whether
// they were saved or not (memory.BlockProfile), and tensors that forward frees unless some layer keeps them are counted to
// the end of forward.
func (pr *pricing) slack() int64 {
	var n int64
	for i := range pr.ref {
		n = max(n, pr.ref[i].ForwardExcess)
	}
	for i := range pr.late {
		if d := &pr.late[i]; d.counts() {
			n += d.bytes
		}
	}
	return n
}

// slackBackward is the most by which backward rows overstate: shared storages that a layer frees early are counted to the
// end of its backward, because another layer may still hold them (memory.BlockProfile.BackwardExcess).
func (pr *pricing) slackBackward() int64 {
	var n int64
	for k := range pr.blocks {
		for i := range pr.blocks[k] {
			n = max(n, pr.blocks[k][i].BackwardExcess)
		}
	}
	return n
}

// slackSteps is the number of steps in which rows are tightened from optimistic to pessimistic.
const slackSteps = 8

// judged solves the flat problem and simulates its answer; the simulator decides. It solves with optimistic rows first: if
// the simulator accepts the answer, it is optimal. Otherwise it tightens the rows step by step, and then lowers the budget
// by the excess that the simulator finds; the answer is then only feasible.
func (pr *pricing) judged(ctx context.Context, prob *solve.Problem, req Request) (*solve.Solution, *memory.Timeline, error) {
	slack, backward, steps := pr.slack(), pr.slackBackward(), int64(slackSteps)
	if slack == 0 && backward == 0 {
		steps = 0
	}
	bound := int64(-1) // of the first search
	try := func(q *solve.Problem) (*solve.Solution, *memory.Timeline, error) {
		sol, err := pr.solveWithin(ctx, q, int64(req.HostMemory))
		if err != nil {
			return nil, nil, err
		}
		if pr.entangled {
			sol.ClosedBy(0)
		}
		if bound < 0 {
			bound = sol.Bound
		} else {
			sol.ClosedBy(bound)
		}
		tl, err := pr.judge(ctx, planOf(pr.options, sol.Choice), req.Sheet)
		return sol, tl, err
	}
	var inf *solve.InfeasibleError
	for n := steps; n > 0; n-- {
		sol, tl, err := try(prob.Lowered(slack*n/steps, backward*n/steps))
		switch {
		case errors.As(err, &inf):
			return pr.leastJudged(ctx, prob, req, bound)
		case err != nil:
			return nil, nil, err
		case tl.Peak.Bytes <= prob.Budget:
			sol.Peak = tl.Peak.Bytes
			return sol, tl, nil
		}
	}
	for q := *prob; ; {
		sol, tl, err := try(&q)
		if errors.As(err, &inf) {
			return pr.leastJudged(ctx, prob, req, bound)
		}
		if err != nil {
			return nil, nil, err
		}
		over := tl.Peak.Bytes - prob.Budget
		if over <= 0 {
			return sol, tl, nil
		}
		q.Budget -= over
	}
}

// leastJudged is the plan with the lowest peak by the rows, if the simulator finds it within the budget.
func (pr *pricing) leastJudged(ctx context.Context, prob *solve.Problem, req Request, bound int64) (*solve.Solution, *memory.Timeline, error) {
	sol, err := pr.minPeak(ctx, prob, int64(req.HostMemory))
	if err != nil {
		return nil, nil, err
	}
	tl, err := pr.judge(ctx, planOf(pr.options, sol.Choice), req.Sheet)
	if err != nil {
		return nil, nil, err
	}
	if tl.Peak.Bytes > prob.Budget {
		return nil, nil, &solve.InfeasibleError{Budget: prob.Budget, Needed: sol.Peak}
	}
	sol.Peak = tl.Peak.Bytes
	return sol.ClosedBy(max(0, bound)), tl, nil
}
