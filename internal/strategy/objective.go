package strategy

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// TradeOff is the whole frontier of flat plans of a model, with the named strategies beside it.
type TradeOff struct {
	Points []solve.FrontierPoint
	// Loss is Frontier.Loss.
	Loss int64
	// BaseTime is the step without recompute, in nanoseconds; a point's Time comes on top.
	BaseTime int64
	// Quantum is what sizes were rounded up to inside the search, 0 for an exact one.
	Quantum int64
	Named   []Alternative
}

// leastQuantum is the first rounding that is tried where the exact search grows too large.
const leastQuantum = 1 << 20

// TradeOffs gives every non-dominated (peak, extra time) pair of the flat class in one pass. quantum above 1 rounds
// sizes up inside the search, in bytes. Where it is not given and the exact search grows too large, it is the least power
// of two, from 1 MiB, for which the search does not.
func TradeOffs(ctx context.Context, p *memory.Program, req Request, quantum int64) (*TradeOff, error) {
	g, err := graphsOf(p)
	if err != nil {
		return nil, err
	}
	none, err := g.judge(ctx, keepAll(), req.Sheet)
	if err != nil {
		return nil, err
	}
	t := &TradeOff{BaseTime: none.Times.Step()}
	for _, kind := range g.searched() {
		req.kind = kind
		if err := t.search(ctx, g, req, quantum); err != nil {
			return nil, err
		}
	}
	t.Points = append(t.Points, solve.FrontierPoint{Peak: none.Peak.Bytes}) // exact, where the search charges what layers share
	t.Points = undominated(t.Points)
	t.Named, err = g.baselines(ctx, req)
	return t, err
}

// search adds the frontier of the plans of one kind.
func (t *TradeOff) search(ctx context.Context, g graphs, req Request, quantum int64) error {
	sp, err := g.space(ctx, req, nil)
	if err != nil {
		return err
	}
	prob := sp.Problem()
	f, err := solve.SolveFrontier(ctx, prob, quantum)
	if quantum <= 1 {
		quantum = 0
		for q := int64(leastQuantum); errors.Is(err, solve.ErrEffort) && q <= solve.Largest/int64(len(prob.Blocks)+2); q *= 2 {
			quantum = q
			f, err = solve.SolveFrontier(ctx, prob, q)
		}
	}
	if err != nil {
		return err
	}
	t.Loss, t.Quantum = max(t.Loss, f.Loss), max(t.Quantum, quantum)
	more := (sp.Untreated.Times.Step() - t.BaseTime) / micro(sp.Untreated)
	for _, x := range f.Points {
		if x.Time > 0 || !g.differ() { // the plan that treats nothing runs on a graph of its own
			t.Points = append(t.Points, solve.FrontierPoint{Peak: x.Peak, Time: x.Time + more})
		}
	}
	return nil
}

// undominated are the points that no other beats in both peak and time, by rising peak.
func undominated(points []solve.FrontierPoint) []solve.FrontierPoint {
	slices.SortFunc(points, func(a, b solve.FrontierPoint) int {
		return cmp.Or(cmp.Compare(a.Peak, b.Peak), cmp.Compare(a.Time, b.Time))
	})
	var out []solve.FrontierPoint
	for _, p := range points {
		if len(out) == 0 || p.Time < out[len(out)-1].Time {
			out = append(out, p)
		}
	}
	return out
}
