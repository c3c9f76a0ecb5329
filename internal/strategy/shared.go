package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

// shared is a storage that no layer made and that some options at some layers keep: the mask of eager attention, which
// a region that reads it must keep and which nothing else saves. It is alive in backward until the first layer that
// keeps it is done, however many keep it; so the first keeper alone is charged with it.
type shared struct {
	bytes int64
	holds [][]bool // by layer of the priced chain, by option
}

// sharedBy compares what the options keep of storages from before the layers. always is the bytes that every option
// keeps at every layer (cos and sin): they belong to the base; what only the first layer keeps is its own input. freed,
// by layer and option, is what the forward pass lets go of after that layer if all layers take that option, since none
// keeps it: with another choice an earlier layer may keep it. late is all that it lets go of in a layer but the first, or
// in the head, unless it is kept.
func sharedBy(p *memory.Program, options []plan.Option) (out, late []shared, always int64, freed [][]int64, err error) {
	g := p.Graph
	first, _ := layerBlocks(g)
	begin := g.Blocks[first].First
	found := map[model.StorageID]*shared{}
	var order []model.StorageID
	for k := range options {
		o := options[k]
		s, err := memory.Lower(p, &plan.Plan{Nodes: []plan.Node{{First: 0, Last: g.Layers - 1, Option: &o}}})
		if err != nil {
			return nil, nil, 0, nil, err
		}
		before := s.Keeps(0, begin) // kept by the embedding itself, longer than by any layer
		for l := range g.Layers {
			b := &g.Blocks[first+l]
			for st := range s.Keeps(b.First, b.End) {
				if g.Storages[st].Born >= begin || before[st] {
					continue
				}
				sh := found[st]
				if sh == nil {
					sh = &shared{bytes: g.Storages[st].Bytes, holds: make([][]bool, g.Layers)}
					for i := range sh.holds {
						sh.holds[i] = make([]bool, len(options))
					}
					found[st] = sh
					order = append(order, st)
				}
				sh.holds[l][k] = true
			}
		}
	}
	slices.Sort(order)
	freed = make([][]int64, g.Layers+1)
	for l := range freed {
		freed[l] = make([]int64, len(options))
	}
	for _, st := range order {
		sh := found[st]
		for k := range options {
			if l := droppedIn(g, st); l > 0 && sh.released(k) < 0 {
				freed[l][k] += sh.bytes
			}
		}
		if droppedIn(g, st) > 0 {
			late = append(late, *sh)
		}
		all, later := true, false
		for l := range sh.holds {
			all = all && !slices.Contains(sh.holds[l], false)
			later = later || l > 0 && slices.Contains(sh.holds[l], true)
		}
		if !later {
			continue
		}
		if all {
			always += sh.bytes
			continue
		}
		if i := slices.IndexFunc(out, func(o shared) bool { return slices.EqualFunc(o.holds, sh.holds, slices.Equal[[]bool]) }); i >= 0 {
			out[i].bytes += sh.bytes
		} else {
			out = append(out, *sh)
		}
	}
	return out, late, always, freed, nil
}

// holdsOwnOutput is true if a layer that is kept holds what the next block reads of it: the result of a ReLU at the
// layer's end. Then a tensor is held by two layers until the backward of the first, and what a layer keeps is not its own:
// prices of the one depend on the other.
func holdsOwnOutput(p *memory.Program) (bool, error) {
	g := p.Graph
	s, err := memory.Lower(p, keepAll())
	if err != nil {
		return false, err
	}
	first, _ := layerBlocks(g)
	for l := range min(g.Layers, 2) {
		b, next := &g.Blocks[first+l], &g.Blocks[first+l+1]
		for st := range s.Keeps(b.First, b.End) {
			if born := g.Storages[st].Born; born < b.First || born >= b.End {
				continue
			}
			for i := next.First; i < next.End; i++ {
				if slices.ContainsFunc(g.Inputs(&g.Ops[i]), func(t model.TensorID) bool { return g.Tensors[t].Storage == st }) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// droppedIn is the layer in which the forward pass lets go of a storage unless it is kept for backward, the number of
// layers if the head does, −1 if it is held to the end or gone before the layers.
func droppedIn(g *model.Graph, st model.StorageID) int {
	drop := g.Storages[st].Drop
	if drop < 0 || int(drop) >= len(g.Ops) {
		return -1
	}
	_, last := layerBlocks(g)
	if int(g.Ops[drop].Block) > last {
		return g.Layers
	}
	return g.Blocks[g.Ops[drop].Block].Layer
}

// released is the layer of the priced chain at which s goes if all its layers take option k, or −1.
func (s *shared) released(k int) int {
	return slices.IndexFunc(s.holds, func(h []bool) bool { return h[k] })
}

// charge gives the problem in which block first[u] is the first that keeps what is shared in unit u (len(Blocks): none
// does), and the options that each block still has.
func (pr *pricing) charge(p *Problem, first []int) (*Problem, [][]int) {
	q := *p
	q.Blocks = slices.Clone(p.Blocks)
	kept := make([][]int, len(q.Blocks))
	for i := range q.Blocks {
		b := &q.Blocks[i]
		var cs []Choice
	options:
		for k, c := range b.Choices {
			for u := range pr.shared {
				h := pr.holds(u, i, k)
				if i < first[u] && h || i == first[u] && !h {
					continue options
				}
				if i == first[u] {
					c.Save += pr.shared[u].bytes
					c.Early += pr.shared[u].bytes // forward has it anyway
					c.Backward += pr.shared[u].bytes
				}
			}
			cs = append(cs, c)
			kept[i] = append(kept[i], k)
		}
		b.Choices = cs
	}
	return &q, kept
}

// holds says whether option k at a layer keeps unit u.
func (pr *pricing) holds(u, layer, k int) bool { return pr.shared[u].holds[pr.same[layer]][k] }

// firstKeepers are the first blocks of a choice that keep each unit.
func (pr *pricing) firstKeepers(choice []int) []int {
	out := make([]int, len(pr.shared))
	for u := range out {
		for out[u] < len(choice) && !pr.holds(u, out[u], choice[out[u]]) {
			out[u]++
		}
	}
	return out
}

// believe is the peak that a problem predicts for a choice.
func (pr *pricing) believe(p *Problem, choice []int) int64 {
	q, kept := pr.charge(p, pr.firstKeepers(choice))
	c := make([]int, len(choice))
	for i, k := range choice {
		c[i] = slices.Index(kept[i], k)
	}
	peak, _ := q.Evaluate(&Solution{Choice: c})
	return peak
}

// maxShared is the most shared units for which every combination of first keepers is tried; with more, all are
// charged to every block, which keeps plans legal but may miss a faster one.
const maxShared = 2

// solve is SolveFlat with what is shared charged once. The problem without the charge bounds it from below; if its
// optimum still fits with the charge, that is the answer, else every combination of first keepers is tried.
func (pr *pricing) solve(ctx context.Context, p *Problem) (*Solution, error) {
	sol, err := SolveFlat(ctx, p)
	if len(pr.shared) == 0 || err != nil {
		return sol, err
	}
	if peak := pr.believe(p, sol.Choice); peak <= p.Budget {
		sol.Peak = peak
		return sol, nil
	}
	relaxed := sol.Time
	if len(pr.shared) > maxShared {
		s, err := pr.solveAllCharged(ctx, p, sol.Bound)
		var inf *InfeasibleError
		if errors.As(err, &inf) {
			if low, e := MinMemory(ctx, p); e == nil && pr.believe(p, low.Choice) <= p.Budget {
				low.Peak = pr.believe(p, low.Choice)
				return low.closedBy(sol.Bound), nil
			}
		}
		return s, err
	}
	var best *Solution
	var needed int64
	first := make([]int, len(pr.shared))
	for {
		s, err := pr.solveCharged(ctx, p, first)
		var inf *InfeasibleError
		switch {
		case errors.As(err, &inf):
			if needed == 0 || inf.Needed < needed {
				needed = inf.Needed
			}
		case err != nil:
			return nil, err
		case s == nil: // no block can be the first keeper here
		case best == nil || s.Time < best.Time || s.Time == best.Time && s.Peak < best.Peak:
			best = s
		}
		if best != nil && best.Time == relaxed || !next(first, len(p.Blocks)) {
			break
		}
	}
	if best == nil {
		return nil, &InfeasibleError{Budget: p.Budget, Needed: needed}
	}
	return best, nil
}

// next counts first up to n in every place; false after the last.
func next(first []int, n int) bool {
	for u := range first {
		if first[u]++; first[u] <= n {
			return true
		}
		first[u] = 0
	}
	return false
}

func (pr *pricing) solveCharged(ctx context.Context, p *Problem, first []int) (*Solution, error) {
	q, kept := pr.charge(p, first)
	if slices.ContainsFunc(kept, func(k []int) bool { return len(k) == 0 }) {
		return nil, nil
	}
	s, err := SolveFlat(ctx, q)
	if err != nil {
		return nil, err
	}
	for i, k := range s.Choice {
		s.Choice[i] = kept[i][k]
	}
	return s, nil
}

// closedBy is the solution, as good as a bound on the time of all plans proves it.
func (s *Solution) closedBy(bound int64) *Solution {
	s.Bound, s.Status, s.Closed = bound, Feasible, "stopped"
	if s.Time == bound {
		s.Status, s.Closed = Optimal, "exact-search"
	}
	return s
}

// solveAllCharged keeps everything shared for the whole of backward. No plan takes less time than bound.
func (pr *pricing) solveAllCharged(ctx context.Context, p *Problem, bound int64) (*Solution, error) {
	q := *p
	for u := range pr.shared {
		q.Base += pr.shared[u].bytes
	}
	s, err := SolveFlat(ctx, &q)
	if err != nil {
		return nil, err
	}
	s.Peak = pr.believe(p, s.Choice)
	return s.closedBy(bound), nil
}
