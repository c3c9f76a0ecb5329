package certificate

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// label is the need of a choice for the layers from some position on: backward and forward bytes above what the layers
// before it keep, and nanoseconds.
type label struct{ bwd, fwd, time int64 }

// nowhere is the forward need of a label whose forward rows cannot bind, whatever the layers before it keep.
const nowhere = math.MinInt64 / 4

// maxShared is the most shared tensors whose sets are told apart.
const maxShared = 4

// outcome is the result of a search.
type outcome struct {
	found    bool  // a choice fits in less than the given time
	time     int64 // of the fastest one
	labels   int64
	complete bool // false: more labels than allowed
}

// search finds the fastest choice that fits and takes less than below nanoseconds.
//
// It walks from the head to the first layer. With P the backward and Q the forward bytes that the layers from i on need
// above what the layers before i keep,
//
//	P_i = max(p_i + G_{>i} + shared, s_i + P_{i+1})    Q_i = max(q_i, f_i + Q_{i+1})    T_i = r_i + T_{i+1}
//
// and both grow with those of i+1, so a label that another beats in all three numbers can be dropped; so can one that
// does not fit, or is too slow, with the least that the layers before it can keep or take. Only such labels are dropped. There
// is a list of labels for each set of shared tensors that the layers before i hold: a shared tensor counts from the
// first of its holders on.
func search(ctx context.Context, c *chain, below, maxLabels int64) (outcome, error) {
	n := len(c.menu)
	out := outcome{complete: true}
	if len(c.shared) > maxShared {
		out.complete = false
		return out, nil
	}
	if c.floor > c.budget {
		return out, nil
	}
	least := prefixes(c, func(o *cost) int64 { return o.save }, slices.Min[[]int64])
	most := prefixes(c, func(o *cost) int64 { return o.save }, slices.Max[[]int64])
	leastFwd := prefixes(c, func(o *cost) int64 { return o.saveFwd }, slices.Min[[]int64])
	mostFwd := prefixes(c, func(o *cost) int64 { return o.saveFwd }, slices.Max[[]int64])
	fastest := prefixes(c, func(o *cost) int64 { return o.time }, slices.Min[[]int64])
	later := c.later()
	sets := 1 << len(c.shared)
	next := make([][]label, sets)
	for set := range next {
		next[set] = []label{{bwd: c.headBwd + c.alive(uint32(set)), fwd: c.headFwd}}
	}
	for i := n - 1; i >= 0; i-- {
		at := make([][]label, sets)
		for set := range sets {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			var all []label
			for k := range c.menu[i] {
				o := &c.menu[i][k]
				held := uint32(set) | o.holds
				row := o.bwd + later[i] + c.alive(held)
				for _, l := range next[held] {
					l = label{max(row, o.save+l.bwd), max(o.fwd, o.saveFwd+l.fwd), o.time + l.time}
					if l.bwd+least[i] > c.room() || l.fwd+leastFwd[i] > c.room() || below != math.MaxInt64 && l.time+fastest[i] >= below {
						continue
					}
					if l.bwd+most[i] <= c.room() {
						l.bwd = nowhere
					}
					if l.fwd+mostFwd[i] <= c.room() {
						l.fwd = nowhere
					}
					all = append(all, l)
				}
			}
			at[set] = undominated(all)
			out.labels += int64(len(at[set]))
			if out.labels > maxLabels {
				out.complete = false
				return out, nil
			}
		}
		next = at
	}
	for _, l := range next[0] {
		if l.bwd <= c.room() && l.fwd <= c.room() && l.time < below && (!out.found || l.time < out.time) {
			out.found, out.time = true, l.time
		}
	}
	return out, nil
}

// prefixes sums, for each position, a number of the layers before it, the one that pick chooses among the options.
func prefixes(c *chain, of func(*cost) int64, pick func([]int64) int64) []int64 {
	out := make([]int64, len(c.menu)+1)
	for i, menu := range c.menu {
		xs := make([]int64, len(menu))
		for k := range menu {
			xs[k] = of(&menu[k])
		}
		out[i+1] = out[i] + pick(xs)
	}
	return out
}

// undominated keeps the labels that no other beats, or equals, in all three numbers.
func undominated(all []label) []label {
	slices.SortFunc(all, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.bwd, b.bwd), cmp.Compare(a.fwd, b.fwd))
	})
	kept := all[:0]
	var stairs []label // of kept labels, by rising bwd and falling fwd
	for _, l := range all {
		i, _ := slices.BinarySearchFunc(stairs, l.bwd, func(s label, bwd int64) int {
			if s.bwd <= bwd {
				return -1
			}
			return 1
		})
		if i > 0 && stairs[i-1].fwd <= l.fwd {
			continue
		}
		kept = append(kept, l)
		from := i
		if i > 0 && stairs[i-1].bwd == l.bwd {
			from--
		}
		to := i
		for to < len(stairs) && stairs[to].fwd >= l.fwd {
			to++
		}
		stairs = slices.Replace(stairs, from, to, l)
	}
	return kept
}
