package certificate

import (
	"fmt"

	"ckptplan/internal/plan"
)

// item is a node of a plan over a nest: layers first…last, kept by a way, or a checkpoint (way −1) with what runs inside.
type item struct {
	first, last, way int
	inner            []item
}

// items reads a plan's nodes over layers first…last; layers without a node keep everything (the menu's first option).
func items(nodes []plan.Node, options []plan.Option, first, last int) ([]item, error) {
	var out []item
	at := first
	keepTo := func(l int) {
		for ; at < l; at++ {
			out = append(out, item{first: at, last: at})
		}
	}
	for _, n := range nodes {
		keepTo(n.First)
		if n.Segment {
			inner, err := items(n.Inner, options, n.First, n.Last)
			if err != nil {
				return nil, err
			}
			out = append(out, item{first: n.First, last: n.Last, way: -1, inner: inner})
			at = n.Last + 1
			continue
		}
		k := -1
		for i := range options {
			if sameOption(&options[i], n.Option) {
				k = i
			}
		}
		whole := sameOption(&plan.Full, n.Option)
		if k < 0 && !whole {
			return nil, fmt.Errorf("option %s of layers %d to %d is not in the chain", n.Option.Name, n.First, n.Last)
		}
		for ; at <= n.Last; at++ {
			if whole {
				out = append(out, item{first: at, last: at, way: -1, inner: []item{{first: at, last: at}}})
			} else {
				out = append(out, item{first: at, last: at, way: k})
			}
		}
	}
	keepTo(last + 1)
	return out, nil
}

// nodesOf is the plan of a list of items.
func nodesOf(list []item, options []plan.Option) []plan.Node {
	var out []plan.Node
	for _, x := range list {
		if x.way < 0 {
			out = append(out, plan.Node{First: x.first, Last: x.last, Segment: true, Inner: nodesOf(x.inner, options)})
		} else {
			out = append(out, plan.Node{First: x.first, Last: x.last, Option: &options[x.way]})
		}
	}
	return out
}

// tally adds up a plan's cost: bytes alive, the most so far, nanoseconds, and how often each layer ran forward.
type tally struct {
	n                 *nest
	alive, peak, time int64
	ran               []int
}

// walk adds a plan up by the rows of plan.CertifiedChain: its peak, its time and the most forwards of a layer. It is an
// error if a list inside a checkpoint does not end with a layer kept.
func (n *nest) walk(list []item) (peak, time int64, forwards int, err error) {
	t := &tally{n: n, alive: n.base + n.input, ran: make([]int, len(n.stages))}
	if err := t.list(list, true); err != nil {
		return 0, 0, 0, err
	}
	for _, r := range t.ran {
		forwards = max(forwards, r)
	}
	return max(t.peak, n.floor), t.time, forwards, nil
}

// during notes bytes that are alive for the time being.
func (t *tally) during(bytes int64) { t.peak = max(t.peak, t.alive+bytes) }

// list goes forward over a list and backward from its end. Its input is alive; the gradient of its last output is alive
// when it comes inside a checkpoint, and otherwise comes from the head.
func (t *tally) list(list []item, top bool) error {
	n := t.n
	for _, x := range list {
		if x.way >= 0 {
			w := &n.stages[x.first].ways[x.way]
			t.during(w.saved + w.fwdOver)
			t.alive += w.saved
			t.time += w.forward
			t.ran[x.first]++
			continue
		}
		for l := x.first; l <= x.last; l++ {
			w, before := n.stages[l].passing(), int64(0)
			if l > x.first {
				before = n.stages[l-1].out
			}
			t.during(before + n.stages[l].out + w.fwdOver)
			t.time += w.forward
			t.ran[l]++
		}
		t.alive += n.stages[x.last].out
	}
	end := list[len(list)-1]
	switch {
	case top:
		t.during(max(n.head.fwd, n.head.bwd))
		t.time += n.head.time
		t.alive += n.head.grad + n.stages[len(n.stages)-1].grad
	case end.way < 0:
		return fmt.Errorf("the list inside a checkpoint of layers %d to %d ends with another checkpoint", list[0].first, end.last)
	default:
		t.time -= n.stages[end.last].ways[end.way].early
	}
	for i := len(list) - 1; i >= 0; i-- {
		x := list[i]
		if x.way < 0 { // its output is freed: its readers have had their backward
			t.alive -= n.stages[x.last].out
			if err := t.list(x.inner, false); err != nil {
				return err
			}
			continue
		}
		s := &n.stages[x.first]
		w := &s.ways[x.way]
		t.during(w.bwdOver)
		t.time += w.backward
		t.alive += s.params - w.saved - s.grad
		if x.first > 0 {
			t.alive += n.stages[x.first-1].grad
		}
	}
	return nil
}
