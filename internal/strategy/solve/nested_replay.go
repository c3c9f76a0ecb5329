package solve

// replay is the state of a chain while a nested plan runs: bytes alive, their peak, and the time so far.
type replay struct {
	c                 *Chain
	alive, peak, time int64
	options           []int // of each stage whose saved set is alive
}

// Evaluate returns the peak and the time of a nested plan by running it stage by stage: the meaning of a plan, apart
// from any recurrence. The plan must be one that a solver of this chain can return.
func (c *Chain) Evaluate(nodes []NestedNode, loss int) (peak, time int64) {
	r := &replay{c: c, alive: c.Base + c.Input, options: make([]int, len(c.Stages))}
	r.run(nodes, func() {
		if len(c.Loss) > 0 {
			o := c.Loss[loss]
			r.need(max(o.Forward, o.Backward))
			r.time += o.Time
		}
		r.alive += c.LossGrad
		if n := len(c.Stages); n > 0 {
			r.alive += c.Stages[n-1].Gradient
		}
	})
	return max(r.peak, c.Floor), r.time
}

// need records a moment at which more bytes than those alive are needed.
func (r *replay) need(more int64) { r.peak = max(r.peak, r.alive+more) }

// run sweeps forward over the nodes, calls turn, and goes backward over them.
func (r *replay) run(nodes []NestedNode, turn func()) {
	for _, n := range nodes {
		switch n.Kind {
		case Keep:
			r.keep(n.First, n.Option)
		case Checkpoint:
			r.sweep(n.First, n.Last)
		}
	}
	turn()
	// A checkpoint leaves its output as a tensor of its own; after a stage that is kept it is part of the saved set.
	dropOutput := func(k int) {
		if k >= 0 && nodes[k].Kind == Checkpoint {
			r.alive -= r.c.Stages[nodes[k].Last].Output
		}
	}
	dropOutput(len(nodes) - 1)
	for k := len(nodes) - 1; k >= 0; k-- {
		switch n := nodes[k]; n.Kind {
		case Keep:
			r.backward(n.First)
		case Checkpoint:
			r.run(n.Inner, r.stopEarly(n.Inner))
		}
		dropOutput(k - 1)
	}
}

// stopEarly is the turn of a recompute: what its last stage does without comes off the time.
func (r *replay) stopEarly(nodes []NestedNode) func() {
	return func() {
		if n := nodes[len(nodes)-1]; n.Option >= 0 {
			r.time -= r.c.Stages[n.Last].Options[n.Option].EarlyStop
		}
	}
}

// sweep runs stages forward and keeps only the last output.
func (r *replay) sweep(first, last int) {
	for i := first; i <= last; i++ {
		s := &r.c.Stages[i]
		o := sweep(s.Options)
		r.alive += s.Output
		r.need(o.ForwardOverhead)
		r.time += o.Forward
		if i > first {
			r.alive -= r.c.Stages[i-1].Output
		}
	}
}

// keep runs a stage forward and keeps its saved set, the output in it.
func (r *replay) keep(i, option int) {
	o := &r.c.Stages[i].Options[option]
	r.options[i] = option
	r.alive += o.Saved
	r.need(o.ForwardOverhead)
	r.time += o.Forward
}

// backward turns the gradient of a stage's output into that of its input.
func (r *replay) backward(i int) {
	s := &r.c.Stages[i]
	o := &s.Options[r.options[i]]
	r.need(o.BackwardOverhead)
	r.time += o.Backward
	r.alive += s.Grad - o.Saved - s.Gradient
	if i > 0 {
		r.alive += r.c.Stages[i-1].Gradient
	}
}
