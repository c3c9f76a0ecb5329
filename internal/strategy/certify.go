package strategy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// ErrNotCertified is returned for a result that is not the fastest plan of its class under its own menu, such as the leanest
// one.
var ErrNotCertified = errors.New("the plan is not the result of a search for the fastest one")

// Recurrence is how the bound of a nested plan is proved: no plan of its chain is faster by SolveNested's recurrence.
const Recurrence = "recurrence"

// NothingAdded is how it is proved that no plan is faster than one that treats no layer: it adds no time.
const NothingAdded = "nothing-added"

// shownOwners is how many owners of the peak a certificate lists.
const shownOwners = 6

// Certify writes down why a result of Optimize is the fastest plan of its class, from the same request. The
// certificate holds peak and time, and no proof, where rows cannot state the class: with a window or a cap for offloading,
// for layers that hold their own output, and for a nested plan that the chain has no form for.
func Certify(ctx context.Context, req Request, res *Result) (*plan.Certificate, error) {
	if res.Leanest {
		return nil, ErrNotCertified
	}
	c := &plan.Certificate{
		Class: res.Class, Status: string(solve.Feasible), Budget: req.Budget, Reserve: req.Budget - res.TensorBudget, TensorBudget: res.TensorBudget,
		Card:   certifiedCard(req.Sheet),
		Peak:   certifiedPeak(res.Timeline),
		Time:   plan.CertifiedTime{Step: res.Timeline.Times.Step(), Extra: extraTime(res.Timeline)},
		Closed: plan.CertifiedSearch{How: "none"},
	}
	if res.Class == "nested" && res.Nested != nil && (res.Nested.Nodes == nil || res.Nested.Limit == 0) {
		return c, nil // a plan that the chain has no form for, or a search that grew too large
	}
	if res.Class == "nested" && res.Nested != nil {
		c.Status, c.Closed.How, c.Chain = string(res.Nested.Status), Recurrence, res.nested.certified(res.Nested)
		return c, nil
	}
	if res.Untreated {
		c.Status, c.Closed.How = string(solve.Optimal), NothingAdded
		return c, nil
	}
	if req.OffloadWindow > 0 || req.HostMemory > 0 {
		return c, nil
	}
	sol, prob := res.Solution, res.Problem
	if res.Class != "flat" || sol == nil || sol.Closed == "" {
		return nil, ErrNotCertified
	}
	sp := res.space
	if sp.Entangled || sp.of(res.Plan.Kind()) != sp.Program {
		return c, nil // the rows do not hold for every plan of the class
	}
	dual, err := prob.Lowered(sp.Slack()).BestBound(ctx, sol)
	if err != nil {
		return nil, err
	}
	menu, bound := sp.certifiedMenu(prob), certifiedBound(len(prob.Blocks), dual)
	bound.Gap = sol.Time - bound.Bound
	c.Status, c.Time.Extra, c.Menu, c.Bound = string(sol.Status), sol.Time, &menu, &bound
	c.Closed = plan.CertifiedSearch{How: sol.Closed, Labels: sol.Stats.Labels}
	switch {
	case sol.Status != solve.Optimal:
		c.Closed.How = "stopped"
	case bound.Gap != 0:
		c.Closed.How = "exact-search"
	}
	return c, nil
}

// extraTime is what recomputation and transfers add to a micro-batch, in nanoseconds.
func extraTime(tl *memory.Timeline) int64 {
	return tl.Times.Extra() / micro(tl)
}

func certifiedCard(s *gpu.Sheet) plan.CertifiedCard {
	if s == nil {
		return plan.CertifiedCard{}
	}
	return plan.CertifiedCard{Name: s.Name, Sheet: plan.RatesFingerprint(s.Peaks.FP32, s.Peaks.TF32, s.Peaks.BF16, s.Peaks.FP16, s.Bandwidth, s.HostLink)}
}

func certifiedPeak(tl *memory.Timeline) plan.CertifiedPeak {
	c := plan.CertifiedPeak{Bytes: unit.Bytes(tl.Peak.Bytes), Phase: tl.Peak.Phase.String(), Block: tl.Block(tl.Peak), Op: tl.Peak.Aten}
	owners := tl.Explain().Owners
	for _, o := range owners[:min(shownOwners, len(owners))] {
		c.Owners = append(c.Owners, plan.CertifiedOwner{Category: string(o.Category), What: o.What, Block: o.Block, Each: o.Each, Count: o.Count})
	}
	return c
}

// certifiedMenu writes the rows of a problem, layers with equal numbers together.
func (sp *space) certifiedMenu(p *solve.Problem) plan.CertifiedMenu {
	forward, backward := sp.Slack()
	m := plan.CertifiedMenu{Slack: unit.Bytes(forward), SlackBackward: unit.Bytes(backward), Base: unit.Bytes(p.Base), Floor: unit.Bytes(p.Floor), Head: plan.CertifiedHead{Forward: unit.Bytes(p.HeadForward), Backward: unit.Bytes(p.HeadBackward), Gradient: unit.Bytes(p.HeadGrad)}}
	for _, g := range alike(len(p.Blocks), func(i int) int64 { return p.Blocks[i].Grad }) {
		m.Gradients = append(m.Gradients, plan.LayerBytes{Layers: plan.FormatLayers(g), Bytes: p.Blocks[g[0]].Grad})
	}
	for k := range sp.Options {
		o := plan.CertifiedOption{Option: sp.Options[k]}
		numbers := func(i int) solve.Choice {
			c := p.Blocks[i].Choices[k]
			c.Holds = 0 // listed by tensor
			return c
		}
		for _, g := range alike(len(p.Blocks), numbers) {
			c := &p.Blocks[g[0]].Choices[k]
			o.Rows = append(o.Rows, plan.LayerPrice{
				Layers: plan.FormatLayers(g), Save: c.Save, SaveForward: c.Save + c.Linger, Forward: c.Forward, Backward: c.Backward, Time: c.Time,
			})
		}
		m.Options = append(m.Options, o)
	}
	for u, bytes := range p.Shared {
		s := plan.SharedTensor{Bytes: unit.Bytes(bytes)}
		for k := range sp.Options {
			var layers []int
			for i := range p.Blocks {
				if p.Blocks[i].Choices[k].Holds&(1<<u) != 0 {
					layers = append(layers, i)
				}
			}
			if layers != nil {
				s.Held = append(s.Held, plan.Holder{Option: sp.Options[k].Name, Layers: plan.FormatLayers(layers)})
			}
		}
		m.Shared = append(m.Shared, s)
	}
	return m
}

// alike groups the layers 0…n−1 by a key, groups by their first layer.
func alike[K comparable](n int, key func(int) K) [][]int {
	at := map[K]int{}
	var groups [][]int
	for i := range n {
		k := key(i)
		g, ok := at[k]
		if !ok {
			g = len(groups)
			at[k] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// certifiedBound writes the rows that have a price.
func certifiedBound(n int, d solve.Dual) plan.CertifiedBound {
	b := plan.CertifiedBound{Bound: d.Bound}
	for phase, rows := range map[string][]int64{"forward": d.Forward, "backward": d.Backward} {
		for i, l := range rows {
			if l != 0 {
				row := "head"
				if i < n {
					row = strconv.Itoa(i)
				}
				b.Rows = append(b.Rows, plan.PricedRow{Phase: phase, Row: row, Lambda: l})
			}
		}
	}
	slices.SortStableFunc(b.Rows, func(x, y plan.PricedRow) int { return cmp.Compare(x.Phase, y.Phase) })
	return b
}
