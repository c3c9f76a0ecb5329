package solve

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ckptplan/internal/thorough"
)

// chainInputs is a chain with one option a stage, as the recorded cases write it.
type chainInputs struct {
	Forward     []float64 `json:"forward_time"`
	Backward    []float64 `json:"backward_time"`
	Sizes       []int64   `json:"input_and_output_sizes_a0_to_an"`
	Saved       []int64   `json:"saved_all_sizes"`
	Gradients   []int64   `json:"gradient_sizes_d0_to_dn"`
	ForwardOver []int64   `json:"forward_overhead"`
	BackOver    []int64   `json:"backward_overhead"`
	ParamGrads  []int64   `json:"parameter_gradient_sizes"`
}

// chain makes times whole numbers by a factor.
func (in *chainInputs) chain(factor float64) *Chain {
	c := &Chain{Input: in.Sizes[0]}
	for i := range in.Forward {
		s := Stage{Output: in.Sizes[i+1], Gradient: in.Gradients[i+1]}
		if in.ParamGrads != nil {
			s.Grad = in.ParamGrads[i]
		}
		s.Options = []StageOption{{
			Saved: in.Saved[i], Forward: int64(math.Round(in.Forward[i] * factor)), Backward: int64(math.Round(in.Backward[i] * factor)),
			ForwardOverhead: in.ForwardOver[i], BackwardOverhead: in.BackOver[i],
		}}
		c.Stages = append(c.Stages, s)
	}
	return c
}

// nestedTime is the time of the best plan, or −1 if none fits; it also checks the plan by running it.
func nestedTime(t *testing.T, c *Chain) int64 {
	t.Helper()
	s, err := SolveNested(context.Background(), c)
	var infeasible *InfeasibleError
	if errors.As(err, &infeasible) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	peak, time, forwards := runNested(t, c, s)
	if max(peak, c.Floor) != s.Peak || time != s.Time || s.Peak > c.Budget {
		t.Fatalf("budget %d: the plan says peak %d and time %d, running it gives %d and %d: %+v", c.Budget, s.Peak, s.Time, peak, time, s.Nodes)
	}
	if p, again := c.Evaluate(s.Nodes, s.Loss); p != peak || again != time {
		t.Fatalf("Evaluate gives peak %d and time %d, running the plan %d and %d: %+v", p, again, peak, time, s.Nodes)
	}
	if c.MaxForwards > 0 && forwards > c.MaxForwards {
		t.Fatalf("a stage runs forward %d times, allowed are %d: %+v", forwards, c.MaxForwards, s.Nodes)
	}
	return s.Time
}

// nestedRun executes a nested plan on a list of live tensors: a machine that shares nothing with the solver.
type nestedRun struct {
	t            *testing.T
	c            *Chain
	alive        map[string]int64
	peak, time   int64
	runs         []int
	gradient     int
	savedOptions map[int]int
	lossOption   Choice
}

func runNested(t *testing.T, c *Chain, s *NestedSolution) (peak, time int64, forwards int) {
	t.Helper()
	r := &nestedRun{t: t, c: c, alive: map[string]int64{"base": c.Base, "a0": c.Input}, runs: make([]int, len(c.Stages)), gradient: -1, savedOptions: map[int]int{}}
	if len(c.Loss) > 0 {
		r.lossOption = c.Loss[s.Loss]
	}
	r.list(s.Nodes, 0, len(c.Stages), r.loss)
	for _, n := range r.runs {
		forwards = max(forwards, n)
	}
	if r.gradient != 0 {
		t.Fatalf("gradient stops at %d", r.gradient)
	}
	return max(r.peak, c.Floor), r.time, forwards
}

func (r *nestedRun) touch(extra int64) {
	for _, b := range r.alive {
		extra += b
	}
	r.peak = max(r.peak, extra)
}

// forward runs stage i (from 0); keep says whether its saved set or only its output is made, dropInput whether the
// input goes afterwards.
func (r *nestedRun) forward(i, option int, keep bool) {
	in, saved := fmt.Sprint("a", i), fmt.Sprint("saved", i)
	if _, ok := r.alive[in]; !ok {
		if _, ok := r.alive[saved]; !ok {
			r.t.Fatalf("forward of stage %d lacks its input", i)
		}
	}
	options := r.c.Stages[i].Options
	o := options[0] // a sweep that keeps nothing takes the fastest forward, of equal ones the one that needs the least
	for _, x := range options[1:] {
		if x.Forward < o.Forward || x.Forward == o.Forward && x.ForwardOverhead < o.ForwardOverhead {
			o = x
		}
	}
	if keep {
		o = r.c.Stages[i].Options[option]
		r.alive[fmt.Sprint("saved", i+1)] = o.Saved
		r.savedOptions[i] = option
	} else {
		r.alive[fmt.Sprint("a", i+1)] = r.c.Stages[i].Output
	}
	r.touch(o.ForwardOverhead)
	r.time += o.Forward
	r.runs[i]++
}

func (r *nestedRun) backward(i int) {
	in, before, saved := fmt.Sprint("a", i), fmt.Sprint("saved", i), fmt.Sprint("saved", i+1)
	_, ok := r.alive[in]
	_, ok2 := r.alive[before]
	if _, ok3 := r.alive[saved]; (!ok && !ok2) || !ok3 || r.gradient != i+1 {
		r.t.Fatalf("backward of stage %d lacks its input, its saved set or its gradient (at %d)", i, r.gradient)
	}
	o := r.c.Stages[i].Options[r.savedOptions[i]]
	r.alive["d"] = r.c.Stages[i].Gradient
	r.touch(o.BackwardOverhead)
	r.time += o.Backward
	delete(r.alive, saved)
	r.alive[fmt.Sprint("grad", i)] = r.c.Stages[i].Grad
	if r.gradient = i; i > 0 {
		r.alive["d"] = r.c.Stages[i-1].Gradient
	}
}

// loss runs the loss, which reads the last stage's output.
func (r *nestedRun) loss() {
	r.touch(max(r.lossOption.Forward, r.lossOption.Backward))
	r.time += r.lossOption.Time
	n := len(r.c.Stages)
	delete(r.alive, fmt.Sprint("a", n))
	r.gradient = n
	r.alive["d"] = r.c.Stages[n-1].Gradient
	r.alive["lossgrad"] = r.c.LossGrad
}

// list runs nodes that cover stages first…end−1, then turn, then the nodes' backwards.
func (r *nestedRun) list(nodes []NestedNode, first, end int, turn func()) {
	at := first
	drop := func(i int) { delete(r.alive, fmt.Sprint("a", i)) }
	for _, n := range nodes {
		if n.First != at {
			r.t.Fatalf("node %+v comes at stage %d", n, at)
		}
		switch n.Kind {
		case Keep:
			r.forward(at, n.Option, true)
		case Checkpoint:
			for i := n.First; i <= n.Last; i++ {
				r.forward(i, n.Option, false)
				if i > n.First {
					drop(i)
				}
			}
		}
		at = n.Last + 1
	}
	if at != end {
		r.t.Fatalf("nodes end at stage %d, want %d", at, end)
	}
	turn()
	for k := len(nodes) - 1; k >= 0; k-- {
		n := nodes[k]
		switch n.Kind {
		case Keep:
			r.backward(n.First)
		case Checkpoint:
			r.list(n.Inner, n.First, n.Last+1, func() {})
			// the recompute stopped in its last stage, whose saved set is made there
			end := n.Inner[len(n.Inner)-1]
			if end.Last != n.Last || end.Kind == Checkpoint {
				r.t.Fatalf("a recompute of stages %d to %d ends with %+v", n.First, n.Last, end)
			}
			r.time -= r.c.Stages[end.Last].Options[end.Option].EarlyStop
		}
		if n.First > first {
			drop(n.First)
		}
	}
}

// Kinds chain and chain_growing_gradients: optima of the persistent class (rotor's recurrence) for several budgets; null
// where nothing fits.
func TestCasesChain(t *testing.T) {
	type expected struct {
		Points []struct {
			Memory     int64  `json:"memory"`
			Persistent *int64 `json:"persistent_optimum"`
		} `json:"points"`
		Frontier [][2]int64 `json:"pareto_frontier_persistent"`
	}
	or := func(p *int64) int64 {
		if p == nil {
			return -1
		}
		return *p
	}
	check := func(t *testing.T, in chainInputs, want expected) {
		c := in.chain(1)
		for _, p := range want.Points {
			c.Budget = p.Memory
			if got := nestedTime(t, c); got != or(p.Persistent) {
				t.Errorf("memory %d: persistent %d, want %d", p.Memory, got, or(p.Persistent))
			}
		}
		if want.Frontier == nil {
			return
		}
		c.Budget = 0
		f, err := NestedFrontier(context.Background(), c)
		if err != nil || len(f.Points) != len(want.Frontier) {
			t.Fatalf("got %v, %v, want %v", f, err, want.Frontier)
		}
		for k, w := range want.Frontier {
			if f.Points[k].Peak != w[0] || f.Points[k].Time != w[1] {
				t.Errorf("point %d: got %v, want %v", k, f.Points[k], w)
			}
		}
	}
	casesOf(t, "chain", check)
	casesOf(t, "chain_growing_gradients", check)
}

// Kind chain_slots: a chain of 50 stages on which four other programs print the same persistent optimum.
func TestCasesChainSlots(t *testing.T) {
	type expected struct {
		Memory     int64   `json:"memory"`
		Persistent float64 `json:"persistent_optimum"`
	}
	casesOf(t, "chain_slots", func(t *testing.T, in chainInputs, want expected) {
		c := in.chain(1e9)
		c.Budget = want.Memory
		if got := float64(nestedTime(t, c)) / 1e9; math.Abs(got-want.Persistent) > 1e-6 {
			t.Errorf("persistent %v, want %v", got, want.Persistent)
		}
	})
}

// Kind revolve: a uniform chain where only boundary tensors cost memory. With room for c checkpoints besides what one
// stage's backward needs, the forward steps are Griewank and Walther's closed form for n steps and c snapshots.
func TestCasesRevolve(t *testing.T) {
	type inputs struct {
		Steps       int   `json:"steps"`
		Checkpoints int64 `json:"checkpoints"`
	}
	type expected struct {
		Total int64 `json:"total_forward_steps"`
	}
	casesOf(t, "revolve", func(t *testing.T, in inputs, want expected) {
		if in.Steps > 100 && !thorough.On {
			t.Skip("long")
		}
		// A saved set is larger than all boundary tensors together: only one is alive at a time. The input of the stage
		// that is about to be reversed is alive besides the snapshots; the closed form does not count it.
		const unit, big = 1, 1 << 20
		c := &Chain{Input: unit, Budget: (in.Checkpoints+1)*unit + big}
		for range in.Steps {
			c.Stages = append(c.Stages, Stage{Type: 1, Output: unit, Options: []StageOption{{Saved: big, Forward: 1}}})
		}
		s, err := SolveNested(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if s.Time != want.Total {
			t.Fatalf("got %d forward steps, want %d", s.Time, want.Total)
		}
	})
}

// state is a moment of any schedule: which boundary tensors and saved sets (four bits a stage: 0 or the option plus
// one) are alive, how often each stage has run forward (four bits a stage; 0 if nobody counts), and how far the
// gradient is (n+1: the loss has not run).
type state struct {
	a        uint8
	saved    uint32
	runs     uint32
	gradient int8
}

type queued struct {
	state
	time int64
}

type queue []queued

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].time < q[j].time }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(queued)) }
func (q *queue) Pop() any          { x := (*q)[len(*q)-1]; *q = (*q)[:len(*q)-1]; return x }

// exhaustive is the least time of all schedules that run whole stages and keep or drop tensors in any order (−1: none
// fits), by Dijkstra over states. At most six stages.
func exhaustive(c *Chain) int64 {
	n := len(c.Stages)
	option := func(s state, i int) int { return int(s.saved>>(4*i)&15) - 1 }
	size := func(s state) int64 {
		sum := c.Base + c.Input
		for i := 1; i <= n; i++ {
			if s.a>>i&1 == 1 {
				sum += c.Stages[i-1].Output
			}
			if k := option(s, i); k >= 0 {
				sum += c.Stages[i-1].Options[k].Saved
			}
			if int(s.gradient) < i {
				sum += c.Stages[i-1].Grad
			}
		}
		if int(s.gradient) <= n {
			sum += c.LossGrad
		}
		if s.gradient >= 1 && int(s.gradient) <= n {
			sum += c.Stages[s.gradient-1].Gradient
		}
		return sum
	}
	has := func(s state, i int) bool { return s.a>>i&1 == 1 || option(s, i) >= 0 }
	loss := c.Loss
	if len(loss) == 0 {
		loss = []Choice{{}}
	}
	best := map[state]int64{}
	var q queue
	push := func(s state, t int64) {
		if old, ok := best[s]; !ok || t < old {
			best[s] = t
			heap.Push(&q, queued{s, t})
		}
	}
	push(state{a: 1, gradient: int8(n + 1)}, 0)
	for len(q) > 0 {
		now := heap.Pop(&q).(queued)
		if best[now.state] < now.time {
			continue
		}
		if now.gradient == 0 {
			return now.time
		}
		s := now.state
		for i := 1; i <= n; i++ {
			if s.a>>i&1 == 1 {
				next := s
				next.a &^= 1 << i
				push(next, now.time)
			}
			if option(s, i) >= 0 {
				next := s
				next.saved &^= 15 << (4 * i)
				push(next, now.time)
			}
			ran := int(s.runs >> (4 * i) & 15)
			if i <= int(s.gradient) && has(s, i-1) && (c.MaxForwards == 0 || ran < c.MaxForwards) {
				after := s
				if c.MaxForwards > 0 {
					after.runs += 1 << (4 * i)
				}
				for k, o := range c.Stages[i-1].Options {
					kept, swept := after, after
					kept.saved = kept.saved&^(15<<(4*i)) | uint32(k+1)<<(4*i)
					swept.a |= 1 << i
					for _, next := range []state{kept, swept} {
						if size(next)+o.ForwardOverhead <= c.Budget {
							push(next, now.time+o.Forward)
						}
					}
				}
			}
			if k := option(s, i); int(s.gradient) == i && has(s, i-1) && k >= 0 {
				o := c.Stages[i-1].Options[k]
				if size(s)+o.BackwardOverhead <= c.Budget {
					next := s
					next.saved &^= 15 << (4 * i)
					next.gradient--
					push(next, now.time+o.Backward)
				}
			}
		}
		if int(s.gradient) == n+1 && has(s, n) {
			for _, o := range loss {
				if size(s)+max(o.Forward, o.Backward) <= c.Budget {
					next := s
					next.gradient--
					push(next, now.time+o.Time)
				}
			}
		}
	}
	return -1
}

// randomChain draws a chain of whole stages; like a transformer's if alike: saved sets far above boundary tensors, all
// of one size, backward about twice forward.
func randomChain(r *rand.Rand, alike, growing bool) *Chain {
	n := 2 + r.IntN(4)
	c := &Chain{Base: r.Int64N(9), Input: 2}
	if !alike {
		c.Input = 1 + r.Int64N(6)
	}
	before := c.Input
	for range n {
		s := Stage{Output: 2, Gradient: 2}
		o := StageOption{Saved: 20 + r.Int64N(9), Forward: 7 + r.Int64N(3), Backward: 15, ForwardOverhead: 3, BackwardOverhead: 2 + r.Int64N(2)}
		if growing {
			s.Grad = 4
			o.BackwardOverhead += 4
		}
		if !alike {
			s.Output = 1 + r.Int64N(6)
			s.Gradient = s.Output
			o = StageOption{Saved: s.Output + r.Int64N(15), Forward: 1 + r.Int64N(9), Backward: 1 + r.Int64N(15), ForwardOverhead: r.Int64N(4)}
			if growing {
				s.Grad = r.Int64N(8)
			}
			o.BackwardOverhead = before + s.Grad + r.Int64N(6)
		}
		before = s.Output
		s.Options = []StageOption{o}
		c.Stages = append(c.Stages, s)
	}
	return c
}

// richer gives a chain a second option per stage (recompute part of it inside the backward), two ways to run the loss
// and, sometimes, a limit on forwards.
func richer(r *rand.Rand, c *Chain) {
	for i := range c.Stages {
		o := c.Stages[i].Options[0]
		part := r.Int64N(max(1, o.Saved-c.Stages[i].Output))
		o.Saved -= part
		o.BackwardOverhead += part
		o.Backward += 1 + r.Int64N(o.Forward)
		c.Stages[i].Options = append(c.Stages[i].Options, o)
	}
	c.Loss = []Choice{{Forward: 4, Backward: 12}, {Forward: 2, Backward: 5, Time: 3}}
	c.LossGrad = r.Int64N(4)
	c.MaxForwards = []int{0, 0, 2, 3}[r.IntN(4)]
}

// stopping lets recomputes stop early.
func stopping(r *rand.Rand, c *Chain) {
	for i := range c.Stages {
		for k := range c.Stages[i].Options {
			o := &c.Stages[i].Options[k]
			o.EarlyStop = r.Int64N(o.Forward + 1)
		}
	}
}

// TestNestedStopsEarly, by hand: two stages of 10 ns forward and 20 ns backward with saved sets of 9 bytes, 1 byte between
// them, and room for one saved set. Stage 1 is checkpointed and runs again as the last of its recompute, which does
// without 4 of its 10 ns; stage 2 is kept. 10 + 10 + 20 + (10 − 4) + 20 = 66.
func TestNestedStopsEarly(t *testing.T) {
	c := &Chain{Input: 1, Budget: 1 + 1 + 9 + 1 + 1}
	for range 2 {
		o := StageOption{Saved: 9, Forward: 10, Backward: 20, BackwardOverhead: 1, EarlyStop: 4}
		c.Stages = append(c.Stages, Stage{Type: 1, Output: 1, Gradient: 1, Options: []StageOption{o}})
	}
	if got := nestedTime(t, c); got != 66 {
		t.Errorf("got %d ns, want 66", got)
	}
}

// everyNested lists the nested plans of stages first…end−1: a node keeps its stage by one of its options or checkpoints
// several stages, which then run again by a plan of their own that ends with a kept stage.
func everyNested(c *Chain, first, end int, again bool) [][]NestedNode {
	if first == end {
		return [][]NestedNode{nil}
	}
	var out [][]NestedNode
	add := func(n NestedNode) {
		for _, rest := range everyNested(c, n.Last+1, end, again) {
			out = append(out, append([]NestedNode{n}, rest...))
		}
	}
	for k := range c.Stages[first].Options {
		add(NestedNode{Kind: Keep, First: first, Last: first, Option: k})
	}
	for last := first; last < end; last++ {
		if again && last == end-1 {
			break // a recompute stops in its last stage, so that it is kept
		}
		for _, inner := range everyNested(c, first, last+1, true) {
			add(NestedNode{Kind: Checkpoint, First: first, Last: last, Option: -1, Inner: inner})
		}
	}
	return out
}

// TestNestedAgainstEveryPlan: the time is the least of all nested plans, each run by the test's own machine; and no plan
// of the class beats the best of all schedules, whatever they keep and drop.
func TestNestedAgainstEveryPlan(t *testing.T) {
	chains := 150
	if !thorough.On {
		chains = 30
	}
	r := rand.New(rand.NewPCG(21, 22))
	for n := range chains {
		c := randomChain(r, n%2 == 0, n%3 == 0)
		if n%5 == 0 {
			c.Stages = c.Stages[:min(len(c.Stages), 3)]
			richer(r, c)
		}
		if n%4 == 1 { // copies of one stage, whose intervals the solver shares
			for i := range c.Stages {
				c.Stages[i] = c.Stages[0]
				c.Stages[i].Type, c.Stages[i].Options = 1, slices.Clone(c.Stages[0].Options)
			}
		}
		if n%10 == 0 { // options whose forwards differ
			for i := range c.Stages {
				for k := range c.Stages[i].Options {
					c.Stages[i].Options[k].Forward += r.Int64N(4)
					c.Stages[i].Options[k].ForwardOverhead += r.Int64N(3)
				}
			}
		}
		if n%7 == 0 && n%4 != 1 {
			stopping(r, c)
		}
		type result struct{ peak, time int64 }
		var all []result
		for _, nodes := range everyNested(c, 0, len(c.Stages), false) {
			for loss := range max(1, len(c.Loss)) {
				peak, time, forwards := runNested(t, c, &NestedSolution{Nodes: nodes, Loss: loss})
				if c.MaxForwards == 0 || forwards <= c.MaxForwards {
					all = append(all, result{peak, time})
				}
			}
		}
		least, err := minNestedPeak(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		for k := range int64(6) {
			c.Budget = least - 1 + k*k*3
			want := int64(-1)
			for _, x := range all {
				if x.peak <= c.Budget && (want < 0 || x.time < want) {
					want = x.time
				}
			}
			got := nestedTime(t, c)
			if got != want {
				t.Fatalf("chain %d, budget %d: nested %d, the best of %d plans %d: %+v", n, c.Budget, got, len(all), want, c)
			}
			if n%7 != 0 || n%4 == 1 { // the schedules know no early stop
				if best := exhaustive(c); got >= 0 && (best < 0 || got < best) {
					t.Fatalf("chain %d, budget %d: nested %d below every schedule's %d: %+v", n, c.Budget, got, best, c)
				}
			}
		}
	}
}
