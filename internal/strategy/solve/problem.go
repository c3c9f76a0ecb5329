// Package solve holds the integer problems behind plans and their exact solvers. It imports nothing of the project.
//
// The flat problem (Problem) chooses one option for each block of a chain under a budget of peak memory: a multiple-choice
// knapsack with nested capacities. SolveFlat keeps the undominated (backward bytes, forward bytes, time) labels at each
// block, one list for each set of shared tensors held, from the last block to the first; a Lagrangian bound (Dual) drops
// most of them and is the certificate. Work is (blocks) × (options) × (labels a block); the number of labels is not
// polynomial in theory. SolveFrontier is the same recurrence for all budgets at once.
//
// The nested problem (Chain) also runs stages again from checkpoints inside checkpoints. SolveNested is a dynamic program
// over intervals whose values are step functions of memory: (different intervals) × (stages) × (steps).
package solve

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Choice is one way to run one block, in bytes and nanoseconds.
type Choice struct {
	// Label names the option for readers.
	Label string
	// Save is what stays alive from the block's forward to its backward (s).
	Save int64
	// Linger is by how much what stays alive from the block's forward to the end of the forward pass differs from Save:
	// under autocast a weight's cast lives until the end of forward whatever the option keeps. It is negative where a
	// block frees what came from before it.
	Linger int64
	// Forward is the most the block needs during its forward above what earlier blocks keep (q).
	Forward int64
	// Backward is the most the block needs at the worst moment of its own backward above what earlier blocks keep (p): its
	// saved set, what it recomputes, incoming and outgoing gradients, temporaries. The gradients that later blocks leave
	// (Block.Grad) come on top and are not part of it; those of its own are.
	Backward int64
	// Time is what the option costs over the fastest one (r).
	Time int64
	// Holds is the set of shared tensors that the option keeps for backward: bit u stands for Problem.Shared[u].
	Holds uint32
}

// Block is one link of the chain with its menu.
type Block struct {
	Choices []Choice
	// Grad is what the block's backward leaves, in bytes: the parameter gradients, which stay until the step's end unless
	// they exist before the backward pass (then they belong to Problem.Base), and the gradient of a tensor that several
	// blocks read, which grows from the last reader on until the block that made the tensor takes it: negative there.
	Grad int64
}

// Problem is the choice of one option for each block of a chain under a budget of peak memory. With s, q, p, r, g as
// in Choice and Block, A_i = Σ_{j<i} s_j and F_i = Σ_{j<i} (s_j + linger_j) what earlier blocks keep, G_{>i} = Σ_{j>i} g_j
// the gradients of later ones, and H_i the size of the union of the sets of shared tensors that blocks 0…i hold, it is
//
//	minimise  Σ_i r_i
//	Base + F_i + q_i                 ≤ Budget   forward of block i; the head is the last
//	Base + A_i + H_i + p_i + G_{>i}  ≤ Budget   backward of block i; the head's
//	Floor                            ≤ Budget
//
// which is a multiple-choice knapsack with nested capacities. A shared tensor is alive in backward until the first block
// that holds it is done, and counts once; in forward it is part of the rows whoever holds it. All numbers are exact
// integers; only Save, Linger and Grad may be negative.
type Problem struct {
	// Base is alive at every moment, in bytes: parameters, optimizer state, inputs.
	Base   int64
	Blocks []Block
	// Shared are the sizes of tensors that several blocks may hold.
	Shared []int64
	// HeadForward and HeadBackward are the most that the last link, norm, head and loss, needs above what the blocks keep.
	HeadForward, HeadBackward int64
	// HeadGrad is the head's parameter gradient in bytes, as Block.Grad.
	HeadGrad int64
	// Floor is a peak, in bytes and including the base, that no choice changes: the optimizer step's.
	Floor int64
	// Budget is the most bytes that may be alive.
	Budget int64
}

// Status says what is known about a solution.
type Status string

const (
	// Optimal: no plan of the class is faster.
	Optimal Status = "optimal"
	// Feasible: the search was stopped; the plan fits, and none of its class is faster than Solution.Bound.
	Feasible Status = "feasible"
)

// Solution is a choice for every block with what is known about it.
type Solution struct {
	// Choice is the option of each block, an index into Block.Choices.
	Choice []int
	// Peak is the plan's peak in bytes, base and floor included; Time its extra time in nanoseconds.
	Peak, Time int64
	Status     Status
	// Bound is a proved lower bound on Time, in nanoseconds: Time itself if the status is Optimal.
	Bound int64
	// Closed says how optimality was proved: "dual-tight" (Dual.Bound equals Time), "exact-search" (no label of the search
	// is faster) or "nothing-added" (the plan adds no time). If it was not, it says why: "stopped", "frontier" for a point of
	// a rounded frontier, "host memory priced" under a cap, "copies overlap" with a window for offloading.
	Closed string
	// Dual is a certificate whose bound a reader can add up again.
	Dual  Dual
	Stats Stats
}

// ClosedBy is the solution, as good as a bound on the time of all plans proves it.
func (s *Solution) ClosedBy(bound int64) *Solution {
	s.Bound, s.Status, s.Closed = bound, Feasible, "stopped"
	if s.Time == bound {
		s.Status, s.Closed = Optimal, "exact-search"
	}
	return s
}

// Stats counts the work of a search.
type Stats struct {
	// Labels is the number of labels kept, Widest the most at one block.
	Labels, Widest int64
}

// InfeasibleError reports that no plan of the class fits the budget. Both fields are bytes.
type InfeasibleError struct {
	// Needed is the exact smallest budget for which a plan of the class exists.
	Budget, Needed int64
}

func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("no plan fits %d bytes: the smallest budget that a plan of this class fits is %d bytes", e.Budget, e.Needed)
}

// ErrInvalidProblem is wrapped by errors about a problem's numbers: none is out of range in a well-formed problem.
var ErrInvalidProblem = errors.New("invalid problem")

// Largest bounds the sum of all sizes and the sum of all times, so that no sum or difference can overflow.
const Largest = math.MaxInt64 / 8

// Validate checks that every sum a solver can form stays below Largest.
func (p *Problem) Validate() error {
	var bytes, time total
	if p.Base < 0 || p.Floor < 0 || p.HeadGrad < 0 || p.HeadForward < 0 || p.HeadBackward < 0 || len(p.Shared) > 32 {
		return fmt.Errorf("%w: base, floor and the head's numbers must not be negative, shared tensors at most 32", ErrInvalidProblem)
	}
	for _, x := range append([]int64{p.Base, p.Floor, p.HeadGrad, p.HeadForward, p.HeadBackward}, p.Shared...) {
		bytes.add(x)
	}
	if p.Budget > Largest || p.Budget < -Largest {
		return fmt.Errorf("%w: budget %d is out of range", ErrInvalidProblem, p.Budget)
	}
	for i, b := range p.Blocks {
		if len(b.Choices) == 0 {
			return fmt.Errorf("%w: block %d has no option", ErrInvalidProblem, i)
		}
		if b.Grad < -Largest {
			return fmt.Errorf("%w: block %d: gradient %d is out of range", ErrInvalidProblem, i, b.Grad)
		}
		bytes.add(max(b.Grad, -b.Grad))
		var save, row, slow int64
		for k, c := range b.Choices {
			if c.Forward < 0 || c.Backward < 0 || c.Time < 0 || bits.Len32(c.Holds) > len(p.Shared) {
				return fmt.Errorf("%w: block %d option %d (%s): only Save and Linger may be negative, and it holds what is shared", ErrInvalidProblem, i, k, c.Label)
			}
			if min(c.Save, c.Linger) < -Largest || max(c.Save, c.Linger) > Largest {
				return fmt.Errorf("%w: block %d option %d (%s): Save %d or Linger %d is out of range", ErrInvalidProblem, i, k, c.Label, c.Save, c.Linger)
			}
			save = max(save, c.Save, -c.Save, c.Save+c.Linger, -c.Save-c.Linger)
			row = max(row, c.Forward, c.Backward)
			slow = max(slow, c.Time)
		}
		bytes.add(save)
		bytes.add(row)
		time.add(slow)
	}
	if bytes.over || time.over {
		return fmt.Errorf("%w: sizes or times add up to more than %d", ErrInvalidProblem, int64(Largest))
	}
	return nil
}

// total is a sum of non-negative numbers that remembers if it passed Largest.
type total struct {
	sum  int64
	over bool
}

func (t *total) add(x int64) {
	if x > Largest || t.sum > Largest-x {
		t.over = true
		return
	}
	t.sum += x
}

// Evaluate returns the peak and the extra time of a choice, row by row as in the doc comment of Problem. It is what
// solvers' recurrences must agree with.
func (p *Problem) Evaluate(choice []int) (peak, time int64) {
	later := p.HeadGrad
	for _, b := range p.Blocks {
		later += b.Grad
	}
	var saved, savedFwd, top int64
	var held uint32
	for i, k := range choice {
		c := &p.Blocks[i].Choices[k]
		later -= p.Blocks[i].Grad
		held |= c.Holds
		top = max(top, savedFwd+c.Forward, saved+p.sharedBytes(held)+c.Backward+later)
		saved += c.Save
		savedFwd += c.Save + c.Linger
		time += c.Time
	}
	top = max(top, savedFwd+p.HeadForward, saved+p.sharedBytes(held)+p.HeadBackward)
	return max(p.Floor, p.Base+top), time
}

// sharedBytes is the size of a set of shared tensors.
func (p *Problem) sharedBytes(set uint32) int64 {
	var n int64
	for ; set != 0; set &= set - 1 {
		n += p.Shared[bits.TrailingZeros32(set)]
	}
	return n
}

// solution is a choice with the peak and time that Evaluate finds.
func (p *Problem) solution(choice []int) *Solution {
	s := &Solution{Choice: choice}
	s.Peak, s.Time = p.Evaluate(choice)
	return s
}

// Lowered is the problem with forward rows lower by so many bytes, and the blocks' backward rows by so many: a
// relaxation, for rows that count up to that much too much.
func (p *Problem) Lowered(forward, backward int64) *Problem {
	if forward == 0 && backward == 0 {
		return p
	}
	q := *p
	q.HeadForward = max(0, q.HeadForward-forward) // the head's backward holds what all layers do
	q.Blocks = slices.Clone(p.Blocks)
	for i := range q.Blocks {
		cs := slices.Clone(q.Blocks[i].Choices)
		for k := range cs {
			cs[k].Forward = max(0, cs[k].Forward-forward)
			cs[k].Backward = max(0, cs[k].Backward-backward)
		}
		q.Blocks[i].Choices = cs
	}
	return &q
}

// sortRuns orders the options inside every run of blocks with equal menus and gradients by decreasing p − s, the order of
// least peak for a given number of each: what is recomputed comes first, what is kept last. So a reader finds few runs of
// equal options. It returns the result if its peak is no higher.
func (p *Problem) sortRuns(s *Solution) *Solution {
	sorted := slices.Clone(s.Choice)
	for i := 0; i < len(p.Blocks); {
		j := i + 1
		for j < len(p.Blocks) && p.Blocks[i].Grad == p.Blocks[j].Grad && slices.Equal(p.Blocks[i].Choices, p.Blocks[j].Choices) {
			j++
		}
		menu := p.Blocks[i].Choices
		slices.SortStableFunc(sorted[i:j], func(x, y int) int {
			return cmp.Or(cmp.Compare(menu[y].Backward-menu[y].Save, menu[x].Backward-menu[x].Save), cmp.Compare(x, y))
		})
		i = j
	}
	peak, _ := p.Evaluate(sorted)
	if peak > s.Peak {
		return s
	}
	t := *s
	t.Choice, t.Peak = sorted, peak
	return &t
}
