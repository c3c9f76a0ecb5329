package solve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Chain is a sequence of stages whose forward may run several times: the input of SolveNested. Stage i = 1…n reads the
// boundary tensor a_{i-1} and writes a_i; the loss follows a_n. Sizes are bytes, times nanoseconds.
type Chain struct {
	// Base is alive at every moment; the input a_0 is alive too and not part of it.
	Base int64
	// Input is a_0, the first stage's input.
	Input  int64
	Stages []Stage
	// Loss holds the options of the loss (and head): Forward and Backward are the most it needs above the boundary
	// tensors and saved sets alive, Time what it costs. No option means a loss that needs nothing.
	Loss []Choice
	// LossGrad is the loss stage's parameter gradient in bytes, as Stage.Grad.
	LossGrad int64
	// Floor is a peak, base included, that no plan changes.
	Floor  int64
	Budget int64
	// MaxForwards is the most often that a stage's forward may run in a step: 1 keeps every stage by one of its options,
	// 2 allows checkpoints, 3 checkpoints inside them, …; 0: no limit. Recomputation inside an option does not count.
	MaxForwards int
}

// Stage is one link of a chain.
type Stage struct {
	// Type is equal for stages that are copies of each other: same sizes, options and gradients. The solver trusts it
	// to share work; stages of type 0 share nothing.
	Type    int
	Options []StageOption
	// Output is a_i and Gradient d_i, the gradient of a_i.
	Output, Gradient int64
	// Grad is the parameter gradient that appears in the stage's backward, where it is part of BackwardOverhead, and
	// stays until the end of the step.
	Grad int64
}

// StageOption is one way to run a stage when its saved set is kept.
type StageOption struct {
	Label string
	// Saved is all that the backward needs besides the stage's input; the output is part of it (ā).
	Saved int64
	// Forward and Backward are times in nanoseconds.
	Forward, Backward int64
	// ForwardOverhead is what the forward needs above its operands and results, BackwardOverhead what the backward
	// needs above the saved set, the input and the gradient of the output; the gradient of the input is part of it.
	ForwardOverhead, BackwardOverhead int64
	// EarlyStop is the part of Forward that the last stage of a recompute does without, in nanoseconds: a checkpoint's
	// second forward ends when it has made again all that backward needs. It is at most Forward.
	EarlyStop int64
}

// NestedNode is a node of a nested plan. A plan is a list of nodes that cover stages 1…n in order, numbered from 0
// here: First and Last are inclusive indices into Chain.Stages.
type NestedNode struct {
	Kind        NodeKind
	First, Last int
	// Option is the option of the stage kept; −1 for a checkpoint.
	Option int
	// Inner says how the stages inside are treated when they run again, right before their backward.
	Inner []NestedNode
}

// NodeKind says what a node does when the forward sweep of its list passes.
type NodeKind string

const (
	// Keep runs stage First and keeps its saved set.
	Keep NodeKind = "keep"
	// Checkpoint runs the stages and keeps only their input; before their backward Inner runs from it.
	Checkpoint NodeKind = "checkpoint"
)

// NestedSolution is an optimal plan of the class.
type NestedSolution struct {
	// Nodes are nil for a plan that the chain has no form for.
	Nodes []NestedNode
	// Loss is the option of the loss.
	Loss int
	// Peak is in bytes, base and floor included; with exact sizes it is the smallest budget for a plan of this time.
	// Time, in nanoseconds, is the sum of all forward and backward times.
	Peak, Time int64
	// Status is Optimal, or Feasible if Time is above Bound: by rounding, or since the simulator refused what the chain
	// says is faster.
	Status Status
	// Bound is a proved lower bound on the time of every plan of the class whose peak is at most Limit: nanoseconds and
	// bytes.
	Bound, Limit int64
	// Intervals is the number of different intervals solved, Points the number of steps of all their functions, Steps that
	// of all alternatives looked at.
	Intervals, Points, Steps int64
}

// SolveNested returns the fastest nested plan that fits the budget, and the least peak for it: segments inside segments,
// recomputed as often as MaxForwards allows.
//
// Method: interval dynamic programming over step functions of memory. f(s,t)(m) is the least time to bring the
// gradient from d_t to d_{s-1} with m bytes besides a_{s-1}, which is resident; d_t counts. With the sums of the
// parameter gradients that have appeared by then,
//
//	keep s         uf_s + ub_s + f(s+1,t)(m − ā_s)
//	checkpoint j   Σ_{s≤k<j} uf_k + f(j,t)(m − a_{j−1}) + f(s,j−1)(m)
//
// each from the memory on that its forward sweep and its backward need. Stage t is the last of a recompute, unless it is the loss: it
// costs its EarlyStop less. Functions are exact to the byte for all m up
// to the budget; intervals with the same sequence of stage types share one. These are the persistent schedules of
// rotor (Beaumont et al., Optimal checkpointing for heterogeneous chains, 2019) with exact peaks.
//
// Cost: (different intervals) × (stages) × (steps of a function); there are n²/2 different intervals for n different
// stages and 3n for identical ones. Not in the class: plans that keep a tensor in a later sweep and drop it before
// its backward; on chains with random sizes they sometimes win.
//
// If nothing fits, the error is an *InfeasibleError with the exact smallest budget; if ctx ends, ctx's error.
func SolveNested(ctx context.Context, c *Chain) (*NestedSolution, error) {
	front, err := NestedFrontier(ctx, c)
	if err != nil {
		return nil, err
	}
	return front.Solution(len(front.Points) - 1), nil
}

// NestedTradeOff is the frontier of a chain up to its budget.
type NestedTradeOff struct {
	// Points are the non-dominated (peak, time) pairs by rising peak.
	Points []FrontierPoint

	solver *nestedSolver
}

// NestedFrontier returns every non-dominated (peak, time) pair of the class up to the chain's budget (0: no limit). A
// search of more than maxNestedSteps steps ends with ErrEffort.
func NestedFrontier(ctx context.Context, c *Chain) (*NestedTradeOff, error) {
	return NestedFrontierWithin(ctx, c, math.MaxInt64)
}

// NestedFrontierWithin is NestedFrontier for plans that take at most time nanoseconds; there may be none.
func NestedFrontierWithin(ctx context.Context, c *Chain, time int64) (*NestedTradeOff, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := newNestedSolver(c, false)
	if time != math.MaxInt64 {
		s.window = newWindow(s, time)
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	top := s.top()
	if c.Budget != 0 && time == math.MaxInt64 && (len(top) == 0 || c.Floor > c.Budget) {
		needed, err := minNestedPeak(ctx, c)
		if err != nil {
			return nil, err
		}
		return nil, &InfeasibleError{Budget: c.Budget, Needed: needed}
	}
	t := &NestedTradeOff{solver: s}
	for _, p := range top {
		point := FrontierPoint{Peak: max(c.Floor, c.Base+c.Input+p.m), Time: p.t}
		if n := len(t.Points); n > 0 && t.Points[n-1].Peak == point.Peak {
			t.Points[n-1] = point // both are below the floor: the faster one stands
			continue
		}
		t.Points = append(t.Points, point)
	}
	return t, nil
}

// maxNestedSteps bounds the steps of functions that a search for nested plans looks at, of some 5 ns each: half a second.
// A chain of 126 equal layers takes a quarter of it, one of 300 would take several times as much.
const maxNestedSteps = 100_000_000

// MinNestedPeak returns the smallest budget that a plan of the class fits.
func MinNestedPeak(ctx context.Context, c *Chain) (int64, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	return minNestedPeak(ctx, c)
}

// minNestedPeak runs the recurrence with functions cut to their first step, which needs only itself.
func minNestedPeak(ctx context.Context, c *Chain) (int64, error) {
	s := newNestedSolver(c, true)
	if err := s.fill(ctx); err != nil {
		return 0, err
	}
	return max(c.Floor, c.Base+c.Input+s.top()[0].m), nil
}

// errNoOption is a stage without options.
var errNoOption = errors.New("stage has no option")

func (c *Chain) Validate() error {
	var bytes, time total
	bad := c.Base < 0 || c.Input < 0 || c.Floor < 0 || c.LossGrad < 0 || c.MaxForwards < 0
	for _, x := range []int64{c.Base, c.Input, c.Floor, c.LossGrad} {
		bytes.add(x)
	}
	for i, g := range c.Stages {
		if len(g.Options) == 0 {
			return fmt.Errorf("%w: stage %d: %w", ErrInvalidProblem, i, errNoOption)
		}
		var size, slow int64
		for _, o := range g.Options {
			bad = bad || min(o.Saved, o.Forward, o.Backward, o.ForwardOverhead, o.BackwardOverhead, o.Forward-o.EarlyStop) < 0
			size = max(size, o.Saved, o.ForwardOverhead, o.BackwardOverhead)
			slow = max(slow, o.Forward, o.Backward, o.Forward-o.EarlyStop)
		}
		bad = bad || min(g.Output, g.Gradient, g.Grad) < 0
		for _, x := range []int64{size, size, size, g.Output, g.Output, g.Gradient, g.Grad} {
			bytes.add(x)
		}
		// A stage's forward runs at most once per enclosing sweep, of which there are at most n + 1.
		if slow > Largest/int64(len(c.Stages)+2) {
			time.over = true
		} else {
			time.add(slow * int64(len(c.Stages)+2))
		}
	}
	for _, o := range c.Loss {
		bad = bad || min(o.Forward, o.Backward, o.Time) < 0
		bytes.add(o.Forward)
		bytes.add(o.Backward)
		time.add(o.Time)
	}
	switch {
	case bad:
		return fmt.Errorf("%w: sizes, times and limits must not be negative", ErrInvalidProblem)
	case bytes.over || time.over || c.Budget > Largest:
		return fmt.Errorf("%w: sizes or times add up to more than %d", ErrInvalidProblem, int64(Largest))
	}
	return nil
}

// interval names a function: stages from s to t (numbered from 1, n+1 is the loss) with forwards sweeps left (0: no
// limit). option is that of the loss, −1 for an interval that ends before it.
type interval struct {
	s, t, option, forwards int
}

// nestedSolver fills the functions of all intervals, short ones first.
type nestedSolver struct {
	c         *Chain
	leastOnly bool // keep only the first step of every function
	room      int64
	window    *window // nil: functions have all their steps
	stages    []Stage // 1…n+1; 0 is unused
	grads     []int64 // grads[i]: sum of parameter gradients of stages 1…i
	uf        []int64 // uf[i]: sum of the sweep times of stages 1…i
	// sweepOption[i] is how stage i runs when nothing of it is kept.
	sweepOption []StageOption
	canonical   [][]int // by [length][s]: the first stage from which length stages have the same types
	memo        map[interval]front
	work        merger
}

func newNestedSolver(c *Chain, leastOnly bool) *nestedSolver {
	n := len(c.Stages)
	s := &nestedSolver{c: c, leastOnly: leastOnly, room: c.Budget - c.Base - c.Input, memo: map[interval]front{}}
	if leastOnly || c.Budget == 0 {
		s.room = math.MaxInt64 / 2
	}
	s.stages = append(make([]Stage, 1, n+2), c.Stages...)
	loss := Stage{Grad: c.LossGrad}
	for _, o := range c.Loss {
		loss.Options = append(loss.Options, StageOption{Label: o.Label, Backward: o.Time, BackwardOverhead: max(o.Forward, o.Backward)})
	}
	if len(loss.Options) == 0 {
		loss.Options = []StageOption{{}}
	}
	s.stages = append(s.stages, loss)
	s.grads, s.uf = make([]int64, n+2), make([]int64, n+2)
	s.sweepOption = make([]StageOption, n+2)
	for i := 1; i <= n+1; i++ {
		s.grads[i] = s.grads[i-1] + s.stages[i].Grad
		s.sweepOption[i] = sweep(s.stages[i].Options)
		s.uf[i] = s.uf[i-1] + s.sweepOption[i].Forward
	}
	s.classify()
	return s
}

// sweep is the option with the fastest forward, of those the one with the least overhead.
func sweep(options []StageOption) StageOption {
	return slices.MinFunc(options, func(x, y StageOption) int {
		return cmp.Or(cmp.Compare(x.Forward, y.Forward), cmp.Compare(x.ForwardOverhead, y.ForwardOverhead))
	})
}

// classify finds for each interval the first one with the same sequence of types.
func (s *nestedSolver) classify() {
	n := len(s.stages) - 1 // the loss is stage n
	s.canonical = make([][]int, n+1)
	class := make([]int, n+2) // of the interval of the current length from each stage
	for length := 1; length <= n; length++ {
		s.canonical[length] = make([]int, n+2)
		type key struct{ class, last int }
		number := map[key]int{}
		first := map[int]int{}
		for from := 1; from+length-1 <= n; from++ {
			end := from + length - 1
			last := s.stages[end].Type
			if last == 0 || end == n {
				last = -end // unlike any other
			}
			k := key{class[from], last}
			if _, ok := number[k]; !ok {
				number[k] = len(number) + 1
				first[number[k]] = from
			}
			class[from] = number[k]
			s.canonical[length][from] = first[number[k]]
		}
	}
}

// at returns the function of an interval, moved to its first copy and with no more sweeps left than can be used.
func (s *nestedSolver) at(v interval) front {
	return s.memo[s.home(v)]
}

func (s *nestedSolver) home(v interval) interval {
	length := v.t - v.s + 1
	v.s = s.canonical[length][v.s]
	v.t = v.s + length - 1
	if v.forwards > 0 {
		v.forwards = min(v.forwards, length+1)
	}
	return v
}

// top is the whole chain's function, over the options of the loss.
func (s *nestedSolver) top() front {
	n := len(s.stages) - 1
	s.work.reset()
	for k := range s.stages[n].Options {
		s.work.add(s.at(interval{1, n, k, s.c.MaxForwards}))
	}
	return s.work.result(s.leastOnly)
}

// fill computes every interval's function.
func (s *nestedSolver) fill(ctx context.Context) error {
	n := len(s.stages) - 1
	for length := 1; length <= n; length++ {
		limits := []int{0}
		if s.c.MaxForwards > 0 {
			limits = limits[:0]
			for f := 1; f <= min(s.c.MaxForwards, length+1); f++ {
				limits = append(limits, f)
			}
		}
		for from := 1; from+length-1 <= n; from++ {
			if s.canonical[length][from] != from {
				continue
			}
			t := from + length - 1
			for _, f := range limits {
				if err := ctx.Err(); err != nil {
					return err
				}
				if s.work.walked > maxNestedSteps || length <= n/2 && s.work.walked/int64(length) > maxNestedSteps/int64(n) {
					return ErrEffort // up to the middle each length takes more steps than the one before
				}
				if t < n {
					s.solve(interval{from, t, -1, f})
				}
				for k := range s.stages[t].Options {
					if t == n {
						s.solve(interval{from, t, k, f})
					}
				}
			}
		}
	}
	return nil
}
