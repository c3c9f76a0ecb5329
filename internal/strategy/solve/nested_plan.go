package solve

import "math"

// decision is an alternative of an interval with what it means: the node that starts the interval's list and the
// intervals of its parts: parts[0] is the rest of the list, parts[1] the inside of the node. An interval with s = 0
// means none.
type decision struct {
	alternative
	node        NestedNode // First, Last count from 0
	rest, inner interval
}

// solve computes the function of an interval from shorter ones.
func (s *nestedSolver) solve(v interval) {
	if s.window != nil && s.window.slowest(s, v) < s.window.fastest(s, v) {
		s.memo[v] = nil
		return
	}
	s.work.reset()
	s.alternatives(v, func(d *decision) bool {
		s.work.addAlternative(&d.alternative, s.room)
		if s.leastOnly && len(s.work.envelope) > 1 {
			s.work.envelope = s.work.envelope[:1]
		}
		return true
	})
	if s.window != nil {
		s.work.forget(s.window.slowest(s, v))
	}
	s.memo[v] = s.work.result(s.leastOnly)
}

// alternatives yields every decision at the start of an interval until yield returns false. See SolveNested for the
// recurrence; least is the memory that the forward sweep and the backward of the interval's first stage need.
func (s *nestedSolver) alternatives(v interval, yield func(*decision) bool) {
	last := &s.stages[v.t]
	resident := last.Gradient
	if v.s == v.t {
		s.leaf(v, resident, yield)
		return
	}
	first := &s.stages[v.s]
	rest := interval{v.s + 1, v.t, v.option, v.forwards}
	later := s.grads[v.t] - s.grads[v.s]
	for k, o := range first.Options {
		d := decision{node: NestedNode{Kind: Keep, First: v.s - 1, Last: v.s - 1, Option: k}, rest: rest}
		d.parts[0] = part{s.at(rest), o.Saved}
		d.least = o.Saved + max(resident+o.ForwardOverhead, first.Gradient+o.BackwardOverhead+later)
		d.time = o.Forward + o.Backward
		if !yield(&d) {
			return
		}
	}
	if v.forwards == 1 {
		return
	}
	again := max(0, v.forwards-1)
	swept := int64(0) // what sweeping the stages before j needs
	for j := v.s + 1; j <= v.t; j++ {
		i := j - 1
		need := resident + s.stages[i].Output + s.sweepOption[i].ForwardOverhead
		if i > v.s {
			need += s.stages[i-1].Output
		}
		swept = max(swept, need)
		if swept > s.room {
			return
		}
		kept := s.stages[j-1].Output
		d := decision{
			node:  NestedNode{Kind: Checkpoint, First: v.s - 1, Last: j - 2, Option: -1},
			rest:  interval{j, v.t, v.option, v.forwards},
			inner: interval{v.s, j - 1, -1, again},
		}
		d.parts = [2]part{{s.at(d.rest), kept}, {s.at(d.inner), s.grads[v.t] - s.grads[j-1]}}
		d.two, d.least, d.time = true, swept, s.uf[j-1]-s.uf[v.s-1]
		if !yield(&d) {
			return
		}
	}
}

// nothing is a part that needs no memory and no time.
var nothing = part{f: front{{math.MinInt64 / 2, 0}}}

// leaf yields the ways to run an interval of one stage.
func (s *nestedSolver) leaf(v interval, resident int64, yield func(*decision) bool) {
	if v.option >= 0 {
		o := s.stages[v.t].Options[v.option]
		d := decision{}
		d.parts[0], d.least, d.time = nothing, resident+o.BackwardOverhead, o.Backward
		yield(&d)
		return
	}
	for k, o := range s.stages[v.t].Options {
		d := decision{node: NestedNode{Kind: Keep, First: v.s - 1, Last: v.s - 1, Option: k}}
		d.parts[0], d.least, d.time = nothing, resident+o.Saved+max(o.ForwardOverhead, o.BackwardOverhead), o.Forward-o.EarlyStop+o.Backward
		if !yield(&d) {
			return
		}
	}
}

// Solution rebuilds the plan of a point by looking up, interval by interval, an alternative that has the function's
// value at the memory available. Intervals wait on a list, so that deep plans need no deep stack.
func (t *NestedTradeOff) Solution(point int) *NestedSolution {
	s := t.solver
	p := t.Points[point]
	sol := &NestedSolution{Peak: p.Peak, Time: p.Time, Status: Optimal, Bound: p.Time, Limit: p.Peak, Intervals: int64(len(s.memo)), Steps: s.work.walked}
	for _, f := range s.memo {
		sol.Points += int64(len(f))
	}
	n := len(s.stages) - 1
	room := p.Peak - s.c.Base - s.c.Input
	for k := range s.stages[n].Options {
		if time, ok := s.at(interval{1, n, k, s.c.MaxForwards}).time(room); ok && time == p.Time {
			sol.Loss = k
			break
		}
	}
	type task struct {
		v    interval
		m    int64
		into *[]NestedNode
	}
	tasks := []task{{interval{1, n, sol.Loss, s.c.MaxForwards}, room, &sol.Nodes}}
	for len(tasks) > 0 {
		now := tasks[len(tasks)-1]
		tasks = tasks[:len(tasks)-1]
		d := s.decide(now.v, now.m)
		if d.node.Kind == "" {
			continue // the saved set of the interval's only stage is alive already
		}
		// A list has at most one node a stage; room for all keeps pointers to Inner valid while it grows.
		if cap(*now.into) == 0 {
			*now.into = make([]NestedNode, 0, now.v.t-now.v.s+1)
		}
		*now.into = append(*now.into, d.node)
		node := &(*now.into)[len(*now.into)-1]
		if d.inner.s > 0 {
			tasks = append(tasks, task{d.inner, now.m - d.parts[1].shift, &node.Inner})
		}
		if d.rest.s > 0 {
			tasks = append(tasks, task{d.rest, now.m - d.parts[0].shift, now.into})
		}
	}
	return sol
}

// decide returns the first alternative of an interval that is as fast as its function says for m bytes.
func (s *nestedSolver) decide(v interval, m int64) decision {
	want, ok := s.at(v).time(m)
	var found decision
	s.alternatives(v, func(d *decision) bool {
		if t, fits := d.value(m); ok && fits && t == want {
			found = *d
			return false
		}
		return true
	})
	return found
}
