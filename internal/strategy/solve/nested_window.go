package solve

// window limits a solver to plans that take at most time nanoseconds: steps of functions that no such plan can use are
// left out, which leaves few where a fast plan is known already.
type window struct {
	time int64
	kept []int64 // kept[i]: least time of stages 1…i, each run forward and backward at least once
}

func newWindow(s *nestedSolver, time int64) *window {
	w := &window{time: time, kept: make([]int64, len(s.stages))}
	for i := 1; i < len(s.stages); i++ {
		back := s.stages[i].Options[0].Backward
		for _, o := range s.stages[i].Options {
			back = min(back, o.Backward)
		}
		w.kept[i] = w.kept[i-1] + s.sweepOption[i].Forward + back
	}
	return w
}

// slowest is the most that an interval's function may take: the stages outside it run at least once, and those in it
// were swept before, unless the loss ends it. (What an early stop takes off a stage's time is less than the sweep before
// has put on.)
func (w *window) slowest(s *nestedSolver, v interval) int64 {
	n := len(s.stages) - 1
	left := w.time - (w.kept[n] - w.kept[v.t] + w.kept[v.s-1])
	if v.t == n {
		return left
	}
	left -= s.uf[v.t-1] - s.uf[v.s-1]
	return left - s.sweepOption[v.t].Forward
}

// fastest is the least that an interval's function can take. The forward of its last stage may have run before, or stop
// at once.
func (w *window) fastest(s *nestedSolver, v interval) int64 {
	least := w.kept[v.t] - w.kept[v.s-1]
	if v.t < len(s.stages)-1 {
		least -= s.sweepOption[v.t].Forward
	}
	return least
}

// forget drops the steps of the envelope that take longer.
func (w *merger) forget(slowest int64) {
	i := 0
	for i < len(w.envelope) && w.envelope[i].t > slowest {
		i++
	}
	w.envelope = w.envelope[i:]
}
