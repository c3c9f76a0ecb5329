package solve

// BoundBy gives the solution the least time of the frontier under a limit.
func (s *NestedSolution) BoundBy(front *NestedTradeOff, limit int64) {
	s.Limit, s.Bound = limit, s.Time
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
