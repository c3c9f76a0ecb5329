package strategy

import (
	"context"
	"errors"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// slack is the most by which forward rows count too much. What a block leaves to the next one is counted there whether it
// was saved or not (memory.BlockProfile), and what the forward pass lets go of unless some layer keeps it is counted to
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

// slackBackward is the most by which backward rows count too much: what a layer lets go of although another may hold it
// longer is counted to the end of its backward (memory.BlockProfile.BackwardExcess).
func (pr *pricing) slackBackward() int64 {
	var n int64
	for k := range pr.blocks {
		for i := range pr.blocks[k] {
			n = max(n, pr.blocks[k][i].BackwardExcess)
		}
	}
	return n
}

// slackSteps are the parts into which slack is divided by a search between forward rows that count too little and rows
// that count too much.
const slackSteps = 8

// judged solves the flat problem and simulates its answer. The simulator has the last word. The problem with rows that
// count nothing too much comes first: if the simulator lets its answer pass, no plan is faster. Else rows are raised
// step by step, and what is then found is only feasible. So it is where the simulator finds more than the rows and the
// problem is solved again for as much less.
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
		tl, err := pr.judge(planOf(pr.options, sol.Choice), req.Sheet)
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

// leastJudged is the plan with the lowest peak by the rows, where that is found within the budget.
func (pr *pricing) leastJudged(ctx context.Context, prob *solve.Problem, req Request, bound int64) (*solve.Solution, *memory.Timeline, error) {
	sol, err := pr.minPeak(ctx, prob, int64(req.HostMemory))
	if err != nil {
		return nil, nil, err
	}
	tl, err := pr.judge(planOf(pr.options, sol.Choice), req.Sheet)
	if err != nil {
		return nil, nil, err
	}
	if tl.Peak.Bytes > prob.Budget {
		return nil, nil, &solve.InfeasibleError{Budget: prob.Budget, Needed: sol.Peak}
	}
	sol.Peak = tl.Peak.Bytes
	return sol.ClosedBy(max(0, bound)), tl, nil
}
