package solve

import (
	"errors"
	"fmt"
	"math"
)

// Choice is one way to run one block, priced in bytes and nanoseconds.
type Choice struct {
	// Label names the option; blocks whose labels are equal count as "the same option" when ties are broken.
	Label string
	// Save is what stays alive from the block's forward to its backward, in bytes (s).
	Save int64
	// Linger is by how much what stays alive from the block's forward to the end of the forward pass differs from Save,
	// in bytes: under autocast a weight's cast lives until the end of forward whatever the option keeps. It is negative
	// where a block lets go of what came from before it.
	Linger int64
	// Forward is the most the block needs during its forward above what earlier blocks keep, in bytes (q).
	Forward int64
	// Backward is the most the block needs at the worst moment of its own backward above what earlier blocks keep, in
	// bytes (p): its saved set, what it recomputes, incoming and outgoing gradients, temporaries. The gradients that
	// later blocks leave (Block.Grad) come on top and are not part of it; those of its own are.
	Backward int64
	// Time is what the option costs over the fastest one, in nanoseconds (r).
	Time int64
}

// Block is one link of the chain with its menu.
type Block struct {
	// Type is equal for blocks that are copies of each other. It is information for readers; solvers compare prices.
	Type    int
	Choices []Choice
	// Grad is what the block's backward leaves, in bytes: the parameter gradients, which stay until the step's end unless
	// they exist before the backward pass (then they belong to Problem.Base), and the gradient of a tensor that several
	// blocks read, which grows from the last reader on until the block that made the tensor takes it: negative there.
	Grad int64
	// Waiting is the number of micro batches, besides the one that runs, whose saved sets of this block are alive at
	// the worst moment (pipeline schedules; 0 without a pipeline).
	Waiting int64
}

// Segment offers to run Length consecutive blocks under one checkpoint: only the segment's input is kept (Save), and
// its backward recomputes all of it. The prices of its choices include parameter gradients of its own blocks.
type Segment struct {
	First, Length int
	Choices       []Choice
}

// Problem is the choice of one option for each block of a chain under a budget of peak memory. With s, q, p, r, g as
// in Choice and Block, resident sums A_i = Σ_{j<i} s_j and F_i = Σ_{j<i} (s_j + linger_j), held sets
// W = Σ_j waiting_j·s_j and later gradients G_{>i} = Σ_{j>i} g_j, it is
//
//	minimise  Σ_i r_i + r_head
//	Base + W + F_i + q_i           ≤ Budget   forward of block i (the head is the last)
//	Base + W + A_i + p_i + G_{>i}  ≤ Budget   backward of block i
//	Floor                          ≤ Budget
//
// which is a multiple-choice knapsack with nested capacities. A segment counts as one block. All numbers are exact
// integers; only Save, Linger and Grad may be negative.
type Problem struct {
	// Base is alive at every moment, in bytes: parameters, optimizer state, inputs.
	Base   int64
	Blocks []Block
	// Head holds the options of the last link, norm, head and loss. Save and Linger of a head option are ignored:
	// its forward and backward follow each other at once. No option means a head that costs nothing.
	Head []Choice
	// HeadGrad is the head's parameter gradient in bytes, as Block.Grad.
	HeadGrad int64
	// Floor is a peak, in bytes and including the base, that no choice changes: the optimizer step's.
	Floor int64
	// Budget is the most bytes that may be alive.
	Budget   int64
	Segments []Segment
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
	// Choice is the option of each block, an index into Block.Choices; −1 inside a segment.
	Choice []int
	// Segments are the segments taken, in order.
	Segments []SegmentChoice
	// Head is the head's option.
	Head int
	// Peak is the plan's peak in bytes, base and floor included; Time its extra time in nanoseconds.
	Peak, Time int64
	Status     Status
	// Bound is a proved lower bound on Time, in nanoseconds: Time itself if the status is Optimal.
	Bound int64
	// Closed says how optimality was proved: "dual-tight" (Dual.Bound equals Time), "exact-search" (no label of the search
	// is faster) or NothingAdded. If it was not, it says why: "stopped", "frontier" for a point of a rounded frontier, "host
	// memory priced" under a cap, "copies overlap" with a window for offloading.
	Closed string
	// Dual is a certificate whose bound a reader can add up again.
	Dual  Dual
	Stats Stats
}

// SegmentChoice is a segment taken: an index into Problem.Segments and one into its choices.
type SegmentChoice struct{ Segment, Choice int }

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

// Validate checks indices and that every sum a solver can form stays below Largest.
func (p *Problem) Validate() error {
	var bytes, time total
	bytes.add(p.Base)
	bytes.add(p.Floor)
	bytes.add(p.HeadGrad)
	if p.Base < 0 || p.Floor < 0 || p.HeadGrad < 0 {
		return fmt.Errorf("%w: base, floor and head gradient must not be negative", ErrInvalidProblem)
	}
	if p.Budget > Largest || p.Budget < -Largest {
		return fmt.Errorf("%w: budget %d is out of range", ErrInvalidProblem, p.Budget)
	}
	menu := func(what string, at int, choices []Choice, waiting int64) error {
		var save, row, slow int64
		for k, c := range choices {
			if c.Forward < 0 || c.Backward < 0 || c.Time < 0 {
				return fmt.Errorf("%w: %s %d option %d (%s): only Save and Linger may be negative", ErrInvalidProblem, what, at, k, c.Label)
			}
			if min(c.Save, c.Linger) < -Largest || max(c.Save, c.Linger) > Largest {
				return fmt.Errorf("%w: %s %d option %d (%s): Save %d or Linger %d is out of range", ErrInvalidProblem, what, at, k, c.Label, c.Save, c.Linger)
			}
			save = max(save, c.Save, -c.Save, c.Save+c.Linger, -c.Save-c.Linger)
			row = max(row, c.Forward, c.Backward)
			slow = max(slow, c.Time)
		}
		for range 1 + min(waiting, 1) {
			bytes.add(save)
		}
		if waiting > 1 && save > Largest/waiting {
			bytes.over = true
		} else {
			bytes.add(save * waiting)
		}
		bytes.add(row)
		time.add(slow)
		return nil
	}
	for i, b := range p.Blocks {
		if len(b.Choices) == 0 {
			return fmt.Errorf("%w: block %d has no option", ErrInvalidProblem, i)
		}
		if b.Waiting < 0 {
			return fmt.Errorf("%w: block %d: waiting micro batches must not be negative", ErrInvalidProblem, i)
		}
		if b.Grad < -Largest {
			return fmt.Errorf("%w: block %d: gradient %d is out of range", ErrInvalidProblem, i, b.Grad)
		}
		bytes.add(max(b.Grad, -b.Grad))
		if err := menu("block", i, b.Choices, b.Waiting); err != nil {
			return err
		}
	}
	for i, s := range p.Segments {
		if s.Length < 1 || s.First < 0 || s.First > len(p.Blocks)-s.Length {
			return fmt.Errorf("%w: segment %d covers blocks %d to %d of %d", ErrInvalidProblem, i, s.First, s.First+s.Length-1, len(p.Blocks))
		}
		if err := menu("segment", i, s.Choices, p.Blocks[s.First].Waiting); err != nil {
			return err
		}
	}
	if err := menu("head", len(p.Blocks), p.Head, 0); err != nil {
		return err
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
// solvers' recurrences must agree with. The solution's choices must be valid for the problem.
func (p *Problem) Evaluate(s *Solution) (peak, time int64) {
	later := p.HeadGrad
	for _, b := range p.Blocks {
		later += b.Grad
	}
	var saved, savedFwd, held, top int64
	run := func(c Choice, blocks []Block) {
		for _, b := range blocks {
			later -= b.Grad
		}
		top = max(top, savedFwd+c.Forward, saved+c.Backward+later)
		saved += c.Save
		savedFwd += c.Save + c.Linger
		if len(blocks) > 0 {
			held += blocks[0].Waiting * c.Save
		}
		time += c.Time
	}
	taken := s.Segments
	for i := 0; i < len(p.Blocks); {
		if len(taken) > 0 && p.Segments[taken[0].Segment].First == i {
			seg := p.Segments[taken[0].Segment]
			run(seg.Choices[taken[0].Choice], p.Blocks[i:i+seg.Length])
			i += seg.Length
			taken = taken[1:]
			continue
		}
		run(p.Blocks[i].Choices[s.Choice[i]], p.Blocks[i:i+1])
		i++
	}
	later -= p.HeadGrad
	if len(p.Head) > 0 {
		h := p.Head[s.Head]
		run(Choice{Forward: h.Forward, Backward: h.Backward, Time: h.Time}, nil)
	} else {
		run(Choice{}, nil)
	}
	return max(p.Floor, p.Base+held+top), time
}
