package certificate

import (
	"context"
	"fmt"
	"math/rand/v2"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
)

// maxSteps bounds the steps of functions that the search for the least time of nested plans visits: about ten seconds. A
// chain of 126 equal layers takes a quarter of them.
const maxSteps = 100_000_000

// chained checks the proof of a nested plan: the rows of its chain, the plan added up by them, and that no plan of the
// chain is faster.
func (c *checker) chained(ctx context.Context) error {
	was := c.c.Chain
	claimed, options, err := claimedNest(was, c.p.Graph.Layers)
	if err != nil {
		c.fails("chain", "%v", err)
		return nil
	}
	is, err := deriveNest(c.p, options, c.sheet)
	if err != nil {
		c.fails("chain", "%v", err)
		return nil
	}
	is.forwards = was.MaxForwards
	equal(c.Report, "chain.bridges", was.Bridges, false, "no plan file holds one")
	c.nestRows(claimed, is, options)
	list, err := items(c.f.Nodes, options, 0, c.p.Graph.Layers-1)
	if err != nil {
		c.fails("nodes", "%v", err)
		return nil
	}
	peak, time, forwards, err := is.walk(list)
	if err != nil {
		c.fails("nodes", "%v", err)
		return nil
	}
	equal(c.Report, "chain.peak_bytes", int64(was.Peak), peak, "the rows of the plan added up")
	if peak < c.peak {
		c.unproved("chain.peak_bytes", fmt.Sprintf("the rows give %d bytes less than a simulation of the plan", c.peak-peak))
	}
	equal(c.Report, "chain.time_ns", was.Time, time, "the rows of the plan added up")
	if c.sheet != nil {
		equal(c.Report, "time.extra_ns by the rows", time-is.kept(), c.extra, "against a simulation of the plan")
	}
	if is.forwards > 0 && forwards > is.forwards {
		c.add(Finding{Claim: "chain.max_forwards", Verdict: Fails, Claimed: fmt.Sprint(is.forwards), Found: fmt.Sprint(forwards), Detail: "the plan's own"})
	}
	limit := max(int64(c.c.TensorBudget), peak)
	equal(c.Report, "chain.limit_bytes", int64(was.Limit), limit, "the tensor budget, or the plan's peak by the rows if that is more")
	c.nestMixes(is, options)
	return c.least(ctx, is, limit, time, maxSteps)
}

// kept is the time of a step that recomputes nothing.
func (n *nest) kept() int64 {
	sum := n.head.time
	for i := range n.stages {
		sum += n.stages[i].ways[0].forward + n.stages[i].ways[0].backward
	}
	return sum
}

// nestRows compares the numbers of a chain. Without a data sheet the times claimed are taken.
func (c *checker) nestRows(was, is *nest, options []plan.Option) {
	timed := c.sheet != nil
	if !timed {
		is.head.time = was.head.time
	}
	for _, e := range []struct {
		claim   string
		was, is int64
	}{
		{"chain.base_bytes", was.base, is.base},
		{"chain.input_bytes", was.input, is.input},
		{"chain.floor_bytes", was.floor, is.floor},
		{"chain.head.forward_bytes", was.head.fwd, is.head.fwd},
		{"chain.head.backward_bytes", was.head.bwd, is.head.bwd},
		{"chain.head.gradient_bytes", was.head.grad, is.head.grad},
		{"chain.head.time_ns", was.head.time, is.head.time},
	} {
		equal(c.Report, e.claim, e.was, e.is, "")
	}
	wrong, numbers := 0, 0
	compare := func(claim string, a, b int64) {
		if numbers++; a == b {
			return
		}
		if wrong++; wrong <= mismatches {
			equal(c.Report, claim, a, b, "simulated again")
		}
	}
	for i := range is.stages {
		a, b := &was.stages[i], &is.stages[i]
		at := fmt.Sprintf(" of layer %d", i)
		compare("chain output_bytes"+at, a.out, b.out)
		compare("chain gradient_bytes"+at, a.grad, b.grad)
		compare("chain parameters_gradient_bytes"+at, a.params, b.params)
		for k := range b.ways {
			v, w := &a.ways[k], &b.ways[k]
			at := fmt.Sprintf(" of option %s at layer %d", options[k].Name, i)
			compare("chain saved_bytes"+at, v.saved, w.saved)
			compare("chain forward_overhead_bytes"+at, v.fwdOver, w.fwdOver)
			compare("chain backward_overhead_bytes"+at, v.bwdOver, w.bwdOver)
			if !timed {
				w.forward, w.backward, w.early = v.forward, v.backward, v.early
				continue
			}
			compare("chain forward_ns"+at, v.forward, w.forward)
			compare("chain backward_ns"+at, v.backward, w.backward)
			compare("chain early_stop_ns"+at, v.early, w.early)
		}
	}
	if wrong > mismatches {
		c.fails("chain", "%d more numbers are wrong", wrong-mismatches)
	}
	if wrong == 0 {
		c.add(Finding{Claim: "chain.options", Verdict: Holds, Detail: fmt.Sprintf("%d numbers of %d options at %d layers, by %d simulations", numbers, len(options), len(is.stages), 2*len(options)+1)})
	}
}

// nestMixes simulates nested plans drawn at random, always the same ones, and compares their peaks and times with the
// rows.
func (c *checker) nestMixes(n *nest, options []plan.Option) {
	rng := rand.New(rand.NewPCG(3, 4))
	micro := int64(c.p.Graph.Step.MicroBatches)
	var most int64
	for range mixes {
		list := drawList(rng, n, 0, len(n.stages)-1, 0)
		peak, time, _, err := n.walk(list)
		if err != nil {
			c.fails("chain", "a mixed plan: %v", err)
			return
		}
		tl, err := memory.Judge(c.p, &plan.Plan{Nodes: nodesOf(list, options)}, c.sheet)
		if err != nil {
			c.fails("chain", "a mixed plan: %v", err)
			return
		}
		if extra := tl.Times.Extra() / micro; c.sheet != nil && time-n.kept() != extra {
			c.add(Finding{Claim: "chain", Verdict: Fails, Claimed: fmt.Sprint(time - n.kept()), Found: fmt.Sprint(extra), Detail: "extra time of a mixed plan, by the rows and simulated"})
			return
		}
		if peak < tl.Peak.Bytes {
			c.unproved("chain", fmt.Sprintf("the rows give a mixed plan %d bytes less than its simulation", tl.Peak.Bytes-peak))
			return
		}
		most = max(most, peak-tl.Peak.Bytes)
	}
	c.add(Finding{Claim: "chain", Verdict: Holds, Detail: fmt.Sprintf("the rows give the simulated times of %d mixed plans, and at most %d bytes above their simulated peaks", mixes, most)})
}

// drawList draws a list over layers first…last, inside so many checkpoints.
func drawList(rng *rand.Rand, n *nest, first, last, depth int) []item {
	var out []item
	for at := first; at <= last; {
		length := 1 + rng.IntN(min(12, last-at+1))
		switch {
		case depth > 0 && at == last, depth == 3, rng.IntN(3) == 0:
			out = append(out, item{first: at, last: at, way: rng.IntN(len(n.stages[at].ways))})
			at++
			continue
		case depth > 0 && at+length > last:
			length-- // a list inside a checkpoint ends with a layer kept
		}
		end := at + max(1, length) - 1
		out = append(out, item{first: at, last: end, way: -1, inner: drawList(rng, n, at, end, depth+1)})
		at = end + 1
	}
	return out
}

// least finds the least time of all plans of the chain again, in at most so many steps, and checks bound and status by it.
func (c *checker) least(ctx context.Context, n *nest, limit, time, most int64) error {
	was := c.c.Chain
	equal(c.Report, "closed", c.c.Closed.How, "recurrence", "how a nested plan's bound is proved")
	status := "optimal"
	if was.Bound < time {
		status = "feasible"
	}
	equal(c.Report, "status", c.c.Status, status, "by the bound claimed and the plan's time")
	out, err := leastTime(ctx, n, limit, most)
	switch {
	case err != nil:
		return err
	case !out.complete:
		c.unproved("chain.bound_ns", fmt.Sprintf("not found again: it takes more than %d steps", most))
	case !out.found:
		c.fails("chain.bound_ns", "no plan of the chain needs at most %d bytes", limit)
	default:
		equal(c.Report, "chain.bound_ns", was.Bound, out.time, fmt.Sprintf("the least time of all nested plans by the rows, found again in %d steps", out.labels))
	}
	return nil
}
