package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

// shared is what some options of a menu keep although no layer made it: the mask of eager attention, which a region
// that reads it must keep, and which nothing else saves. It is one storage however many layers keep it, alive in
// backward from its start to the end of the first layer that keeps it; so that layer alone is charged with it.
type shared struct {
	bytes int64
	holds []bool // by option
}

// sharedBy compares what the options keep of storages from before the layers. What all options keep (cos and sin)
// is the base's; the rest is shared.
func sharedBy(p *memory.Program, options []plan.Option) (shared, error) {
	g := p.Graph
	first, _ := layerBlocks(g)
	begin := g.Blocks[first].First
	sets := make([]map[model.StorageID]bool, len(options))
	all := map[model.StorageID]int{}
	for k := range options {
		o := options[k]
		s, err := memory.Lower(p, &plan.Plan{Nodes: []plan.Node{{First: 0, Last: g.Layers - 1, Option: &o}}})
		if err != nil {
			return shared{}, err
		}
		sets[k] = map[model.StorageID]bool{}
		// the second block of the chain: it does not read the embedding's output
		b := g.Blocks[min(first+1, len(g.Blocks)-1)]
		for st := range s.Keeps(b.First, b.End) {
			if born := g.Storages[st].Born; born < begin {
				sets[k][st] = true
				all[st]++
			}
		}
	}
	sh := shared{holds: make([]bool, len(options))}
	for st, n := range all {
		if n == len(options) {
			continue
		}
		sh.bytes += g.Storages[st].Bytes
		for k := range options {
			sh.holds[k] = sh.holds[k] || sets[k][st]
		}
	}
	return sh, nil
}

// charge gives the problem in which block f is the first that keeps what is shared (len(Blocks): none does).
func (sh *shared) charge(p *Problem, f int) (*Problem, [][]int) {
	q := *p
	q.Blocks = slices.Clone(p.Blocks)
	kept := make([][]int, len(q.Blocks))
	for i := range q.Blocks {
		b := &q.Blocks[i]
		var cs []Choice
		for k, c := range b.Choices {
			if i < f && sh.holds[k] || i == f && !sh.holds[k] {
				continue
			}
			if i == f {
				c.Save += sh.bytes
				c.Backward += sh.bytes
			}
			cs = append(cs, c)
			kept[i] = append(kept[i], k)
		}
		b.Choices = cs
	}
	return &q, kept
}

// first is the first block whose choice keeps what is shared.
func (sh *shared) first(choice []int) int {
	return slices.IndexFunc(append(slices.Clone(choice), -1), func(k int) bool { return k < 0 || sh.holds[k] })
}

// believe is the peak that a problem predicts for a choice.
func (sh *shared) believe(p *Problem, choice []int) int64 {
	if sh.bytes == 0 {
		peak, _ := p.Evaluate(&Solution{Choice: choice})
		return peak
	}
	q, kept := sh.charge(p, sh.first(choice))
	c := make([]int, len(choice))
	for i, k := range choice {
		c[i] = slices.Index(kept[i], k)
	}
	peak, _ := q.Evaluate(&Solution{Choice: c})
	return peak
}

// solve is SolveFlat with what is shared charged once. The problem without the charge bounds it from below; if its
// optimum still fits with the charge, that is the answer, else every first keeper is tried.
func (sh *shared) solve(ctx context.Context, p *Problem) (*Solution, error) {
	sol, err := SolveFlat(ctx, p)
	if sh.bytes == 0 || err != nil {
		return sol, err // even without the charge nothing fits: Needed is corrected by the caller's simulation
	}
	if peak := sh.believe(p, sol.Choice); peak <= p.Budget {
		sol.Peak = peak
		return sol, nil
	}
	relaxed := sol.Time
	var best *Solution
	var needed int64
	for f := 0; f <= len(p.Blocks); f++ {
		q, kept := sh.charge(p, f)
		if slices.ContainsFunc(kept, func(k []int) bool { return len(k) == 0 }) {
			continue
		}
		s, err := SolveFlat(ctx, q)
		var inf *InfeasibleError
		if errors.As(err, &inf) {
			if needed == 0 || inf.Needed < needed {
				needed = inf.Needed
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for i, k := range s.Choice {
			s.Choice[i] = kept[i][k]
		}
		if best == nil || s.Time < best.Time || s.Time == best.Time && s.Peak < best.Peak {
			best = s
		}
		if best.Time == relaxed {
			break
		}
	}
	if best == nil {
		return nil, &InfeasibleError{Budget: p.Budget, Needed: needed}
	}
	return best, nil
}
