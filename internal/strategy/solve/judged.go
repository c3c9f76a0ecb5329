package solve

import "slices"

// Lowered is a problem with its forward and backward rows so much lower.
func (p *Problem) Lowered(forward, backward int64) *Problem {
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

// ClosedBy is the solution, as good as a bound on the time of all plans proves it.
func (s *Solution) ClosedBy(bound int64) *Solution {
	s.Bound, s.Status, s.Closed = bound, Feasible, "stopped"
	if s.Time == bound {
		s.Status, s.Closed = Optimal, "exact-search"
	}
	return s
}

// BoundBy gives the solution the least time of the frontier under a limit.
func (s *NestedSolution) BoundBy(front *NestedTradeOff, limit int64) {
	s.Limit = limit
	for _, p := range front.Points {
		if p.Peak <= s.Limit {
			s.Bound = p.Time
		}
	}
	s.Status = Optimal
	if s.Bound < s.Time {
		s.Status = Feasible
	}
}
