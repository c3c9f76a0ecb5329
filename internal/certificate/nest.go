package certificate

import (
	"cmp"
	"fmt"
	"slices"

	"ckptplan/internal/plan"
)

// nest is the problem of plan.CertifiedChain: which layers to keep, and how, and which to run again from a checkpoint.
type nest struct {
	base, input, floor int64
	forwards           int // most that a layer runs forward; 0: no limit
	stages             []stage
	head               struct{ fwd, bwd, grad, time int64 }
}

// stage is a layer with the bytes of its output, of the output's gradient and of its parameters' gradient.
type stage struct {
	out, grad, params int64
	ways              []way
}

// way is an option at a layer, in bytes and nanoseconds.
type way struct {
	saved, fwdOver, bwdOver int64
	forward, backward       int64
	early                   int64 // the time that the last forward of a recompute saves
}

// passing is how a layer runs if none of it is kept: the fastest way and, among equally fast ones, the one that needs least.
func (s *stage) passing() way {
	return slices.MinFunc(s.ways, func(a, b way) int {
		return cmp.Or(cmp.Compare(a.forward, b.forward), cmp.Compare(a.fwdOver, b.fwdOver))
	})
}

// claimedNest expands a certificate's chain. It is an error if a layer lacks a row or has one twice.
func claimedNest(c *plan.CertifiedChain, layers int) (*nest, []plan.Option, error) {
	n := &nest{base: int64(c.Base), input: int64(c.Input), floor: int64(c.Floor), forwards: c.MaxForwards, stages: make([]stage, layers)}
	n.head.fwd, n.head.bwd, n.head.grad, n.head.time = int64(c.Head.Forward), int64(c.Head.Backward), int64(c.Head.Gradient), c.Head.Time
	var runs []string
	for _, t := range c.Layers {
		runs = append(runs, t.Layers)
	}
	err := covered("chain.layers", runs, layers, func(r, l int) {
		t := &c.Layers[r]
		n.stages[l].out, n.stages[l].grad, n.stages[l].params = int64(t.Output), int64(t.Gradient), int64(t.ParametersGradient)
	})
	if err != nil {
		return nil, nil, err
	}
	var options []plan.Option
	for k := range c.Options {
		o := &c.Options[k]
		if slices.ContainsFunc(options, func(x plan.Option) bool { return x.Name == o.Option.Name }) {
			return nil, nil, fmt.Errorf("chain.options: %s is listed twice", o.Option.Name)
		}
		if slices.ContainsFunc(o.Option.Regions, func(r plan.Region) bool { return r.Span == "layer" || len(r.Cache) > 0 || r.Offload != "" }) {
			return nil, nil, fmt.Errorf("chain.options: %s does more than recompute parts of a layer", o.Option.Name)
		}
		options = append(options, o.Option)
		runs = runs[:0]
		for _, r := range o.Rows {
			runs = append(runs, r.Layers)
		}
		err := covered("chain.options "+o.Option.Name, runs, layers, func(r, l int) {
			x := &o.Rows[r]
			n.stages[l].ways = append(n.stages[l].ways, way{
				saved: int64(x.Saved), fwdOver: int64(x.ForwardOverhead), bwdOver: int64(x.BackwardOverhead),
				forward: x.Forward, backward: x.Backward, early: x.EarlyStop,
			})
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if len(options) == 0 || len(options[0].Regions) > 0 {
		return nil, nil, fmt.Errorf("chain.options: the first is to keep everything")
	}
	return n, options, nil
}
