package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/memory"
)

// slack is the most by which forward rows count too much. What a block leaves to the next one is counted there whether it
// was saved or not (memory.BlockProfile), and what the forward pass lets go of unless some layer keeps it is counted to
// the end of forward.
func (pr *pricing) slack() int64 {
	var n int64
	for i := range pr.ref {
		n = max(n, pr.ref[i].Left)
	}
	for i := range pr.late {
		if d := &pr.late[i]; d.counts() {
			n += d.bytes
		}
	}
	return n
}

// slackBackward is the most by which backward rows count too much: what a layer lets go of although another may hold it
// longer is counted to the end of its backward (memory.BlockProfile.Longer).
func (pr *pricing) slackBackward() int64 {
	var n int64
	for k := range pr.blocks {
		for i := range pr.blocks[k] {
			n = max(n, pr.blocks[k][i].Longer)
		}
	}
	return n
}

// lowered is a problem with its forward and backward rows so much lower.
func (p *Problem) lowered(forward, backward int64) *Problem {
	if forward == 0 && backward == 0 {
		return p
	}
	q := *p
	lower := func(cs []Choice) []Choice {
		cs = slices.Clone(cs)
		for k := range cs {
			cs[k].Forward = max(0, cs[k].Forward-forward)
			cs[k].Backward = max(0, cs[k].Backward-backward)
		}
		return cs
	}
	q.Blocks, q.Head = slices.Clone(p.Blocks), slices.Clone(p.Head)
	for k := range q.Head { // its backward holds what all layers do
		q.Head[k].Forward = max(0, q.Head[k].Forward-forward)
	}
	for i := range q.Blocks {
		q.Blocks[i].Choices = lower(p.Blocks[i].Choices)
	}
	return &q
}

// slackSteps are the parts into which slack is divided by a search between forward rows that count too little and rows
// that count too much.
const slackSteps = 8

// judged solves the flat problem and simulates its answer. The simulator has the last word. The problem with rows that
// count nothing too much comes first: if the simulator lets its answer pass, no plan is faster. Else rows are raised
// step by step, and what is then found is only feasible. So it is where the simulator finds more than the rows and the
// problem is solved again for as much less.
func (pr *pricing) judged(ctx context.Context, prob *Problem, req Request) (*Solution, *memory.Timeline, error) {
	slack, backward, steps := pr.slack(), pr.slackBackward(), int64(slackSteps)
	if slack == 0 && backward == 0 {
		steps = 0
	}
	bound := int64(-1) // of the first search
	try := func(q *Problem) (*Solution, *memory.Timeline, error) {
		sol, err := pr.solveWithin(ctx, q, int64(req.HostMemory))
		if err != nil {
			return nil, nil, err
		}
		if pr.entangled {
			sol.closedBy(0)
		}
		if bound < 0 {
			bound = sol.Bound
		} else {
			sol.closedBy(bound)
		}
		tl, err := pr.judge(planOf(pr.options, sol.Choice), req.Sheet)
		return sol, tl, err
	}
	var inf *InfeasibleError
	for n := steps; n > 0; n-- {
		sol, tl, err := try(prob.lowered(slack*n/steps, backward*n/steps))
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
func (pr *pricing) leastJudged(ctx context.Context, prob *Problem, req Request, bound int64) (*Solution, *memory.Timeline, error) {
	sol, err := pr.leastFlat(ctx, prob, int64(req.HostMemory))
	if err != nil {
		return nil, nil, err
	}
	tl, err := pr.judge(planOf(pr.options, sol.Choice), req.Sheet)
	if err != nil {
		return nil, nil, err
	}
	if tl.Peak.Bytes > prob.Budget {
		return nil, nil, &InfeasibleError{Budget: prob.Budget, Needed: sol.Peak}
	}
	sol.Peak = tl.Peak.Bytes
	return sol.closedBy(max(0, bound)), tl, nil
}

// closedBy is the solution, as good as a bound on the time of all plans proves it.
func (s *Solution) closedBy(bound int64) *Solution {
	s.Bound, s.Status, s.Closed = bound, Feasible, "stopped"
	if s.Time == bound {
		s.Status, s.Closed = Optimal, "exact-search"
	}
	return s
}
