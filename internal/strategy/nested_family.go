package strategy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
)

// The search on a chain's frontier uses slightly pessimistic estimates, and visits plans whose estimated peak is near the
// budget. So named plans of the class are simulated in addition.

// family are the uniform plans of the class. The plan that keeps everything comes first.
func (m *nestedModel) family(ctx context.Context) ([]*solve.NestedSolution, error) {
	n, maxForwards := len(m.chain.Stages), m.chain.MaxForwards
	out := []*solve.NestedSolution{m.known(m.keeping(0, n-1))}
	if maxForwards == 1 {
		return out, nil
	}
	for k := 1; k <= n; k++ {
		if k > 1 && n > longChain && (n+k-1)/k == (n+k-2)/(k-1) {
			continue // shorter segments of the same number
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, m.known(m.uniform(k, false)))
		if k > 1 && (maxForwards == 0 || maxForwards > 2) {
			out = append(out, m.known(m.uniform(k, true)))
		}
	}
	return out, nil
}

// longChain is the number of layers from which only one uniform plan is tried for each number of segments: adding up one
// for each segment size takes time quadratic in the layers. No preset has as many.
const longChain = 128

// uniform are segments of k layers each; nested: every layer of them is a checkpoint of its own but the last, which the
// segment's backward needs at once.
func (m *nestedModel) uniform(k int, nested bool) []solve.NestedNode {
	var out []solve.NestedNode
	n := len(m.chain.Stages)
	for first := 0; first < n; first += k {
		last := min(first+k, n) - 1
		inner := m.keeping(first, last)
		if nested {
			for i, x := range inner[:len(inner)-1] {
				inner[i] = m.checkpoint(x.First, x.First, []solve.NestedNode{x})
			}
		}
		out = append(out, m.checkpoint(first, last, inner))
	}
	return out
}

// keeping are layers that keep everything.
func (m *nestedModel) keeping(first, last int) []solve.NestedNode {
	var out []solve.NestedNode
	for l := first; l <= last; l++ {
		out = append(out, solve.NestedNode{Kind: solve.Keep, First: l, Last: l, Option: m.keep()})
	}
	return out
}

func (m *nestedModel) checkpoint(first, last int, inner []solve.NestedNode) solve.NestedNode {
	return solve.NestedNode{Kind: solve.Checkpoint, First: first, Last: last, Option: -1, Inner: inner}
}

// keep is the chain's option that keeps everything.
func (m *nestedModel) keep() int {
	return slices.IndexFunc(m.options, func(k int) bool { return len(m.menu[k].Regions) == 0 })
}

// flat are the nodes of a flat plan whose options the chain has; nil if it has not.
func (m *nestedModel) flat(options []plan.Option, choice []int) []solve.NestedNode {
	var out []solve.NestedNode
	for l, k := range choice {
		o := &options[k]
		n := slices.IndexFunc(m.options, func(c int) bool { return m.menu[c].Name == o.Name })
		switch {
		case n >= 0:
			out = append(out, solve.NestedNode{Kind: solve.Keep, First: l, Last: l, Option: n})
		case o.Name == plan.Full.Name:
			out = append(out, m.checkpoint(l, l, m.keeping(l, l)))
		default:
			return nil
		}
	}
	return out
}

// known is a plan of the class with the chain's estimates; it is not proved yet.
func (m *nestedModel) known(nodes []solve.NestedNode) *solve.NestedSolution {
	s := &solve.NestedSolution{Nodes: nodes, Status: solve.Feasible}
	s.Peak, s.Time = m.chain.Evaluate(nodes, 0)
	return s
}

// named is the fastest plan of the strategies nested-K within the budget; nil if none is. The last layer of their segments
// also has a checkpoint of its own, for which a chain has no form: it runs again right after it ran, which gains nothing.
// But because of the order in which PyTorch frees tensors the peak may be a little lower.
func (m *nestedModel) named(ctx context.Context, pr *space, budget int64) (*nestedPlan, error) {
	if n := m.chain.MaxForwards; n == 1 || n == 2 {
		return nil, nil
	}
	var best *nestedPlan
	layers := len(m.chain.Stages)
	var sizes []int
	peaks := map[int]int64{}
	for k := 1; k <= layers; k++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sizes = append(sizes, k)
		peaks[k] = m.known(m.uniform(k, true)).Peak
	}
	slices.SortStableFunc(sizes, func(a, b int) int { return cmp.Compare(peaks[a], peaks[b]) })
	for _, k := range sizes[:min(maxKnown, layers)] {
		pl, err := plan.Named("nested-"+strconv.Itoa(k), layers)
		if err != nil {
			return nil, err
		}
		tl, err := pr.judge(ctx, pl, pr.Sheet)
		if err != nil {
			return nil, err
		}
		if tl.Peak.Bytes <= budget && (best == nil || tl.Times.Step() < best.timeline.Times.Step()) {
			micro := int64(tl.Graph().Step.MicroBatches)
			time := tl.Times.Step() - tl.Times.Optimizer
			best = &nestedPlan{pl, tl, &solve.NestedSolution{
				Peak: tl.Peak.Bytes, Time: time / micro, Status: solve.Feasible,
				Bound: (time - tl.Times.Extra()) / micro, Limit: budget, // no plan takes less than the step without recompute
			}, m}
		}
	}
	return best, nil
}

// maxKnown bounds the known plans that are simulated, for long chains: those with the lowest peaks by the chain's estimates.
const maxKnown = 24

func lowest(known []*solve.NestedSolution) []*solve.NestedSolution {
	slices.SortStableFunc(known, func(a, b *solve.NestedSolution) int { return cmp.Compare(a.Peak, b.Peak) })
	return known[:min(maxKnown, len(known))]
}

// faster looks through the known plans for one within the budget that is faster than best, which may be nil. Times by
// the chain are those of the simulator, so that the fastest are simulated first, and few.
func (m *nestedModel) faster(ctx context.Context, pr *space, known []*solve.NestedSolution, best *nestedPlan, budget int64) (*nestedPlan, error) {
	known = slices.DeleteFunc(known, func(s *solve.NestedSolution) bool { return best != nil && s.Time >= best.solution.Time })
	known = lowest(known)
	slices.SortStableFunc(known, func(a, b *solve.NestedSolution) int { return cmp.Compare(a.Time, b.Time) })
	for _, s := range known {
		found, err := m.judged(ctx, pr, s)
		if err != nil {
			return nil, err
		}
		if found.timeline.Peak.Bytes <= budget {
			return found, nil
		}
	}
	return best, nil
}

// judged simulates a solution's plan.
func (m *nestedModel) judged(ctx context.Context, pr *space, s *solve.NestedSolution) (*nestedPlan, error) {
	pl := m.plan(s.Nodes)
	tl, err := pr.judge(ctx, pl, pr.Sheet)
	return &nestedPlan{pl, tl, s, m}, err
}

// flatOf is the fastest flat plan within the budget that uses only options of the chain, or the leanest one for a budget of
// 0; nil if there is none.
func (m *nestedModel) flatOf(ctx context.Context, pr *space, p *memory.Program, budget int64) (*solve.NestedSolution, error) {
	q := pr.only(func(o *plan.Option) bool {
		return o.Name == plan.Full.Name || slices.ContainsFunc(m.options, func(k int) bool { return pr.Options[k].Name == o.Name })
	})
	prob := q.Problem()
	prob.Budget = budget
	var sol *solve.Solution
	var err error
	if budget == 0 {
		sol, _, err = q.leanestFlat(ctx, prob)
	} else {
		sol, _, err = q.fastestFlat(ctx, prob)
	}
	var inf *solve.InfeasibleError
	switch {
	case errors.As(err, &inf):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if nodes := m.flat(q.Options, sol.Choice); nodes != nil {
		return m.known(nodes), nil
	}
	return nil, nil
}
