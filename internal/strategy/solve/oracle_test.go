package solve

import (
	"math"
	"math/rand/v2"
)

// randomProblem draws a small problem. Its features are switched on at random: gradients that grow, forward rows,
// separate forward prefixes, waiting micro batches, segments, a floor.
func randomProblem(r *rand.Rand, blocks, options int) *Problem {
	p := &Problem{Base: r.Int64N(20)}
	grads, forward, prefixes, waiting, segments := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(6) == 0, r.IntN(4) == 0
	choice := func() Choice {
		c := Choice{Save: r.Int64N(30), Time: r.Int64N(25)}
		c.Backward = c.Save + r.Int64N(20)
		if r.IntN(8) == 0 {
			c.Backward = r.Int64N(30) // below what it saves
		}
		if forward {
			c.Forward = r.Int64N(60)
		}
		if prefixes {
			c.Linger = r.Int64N(25) - 10
		}
		return c
	}
	menu := func(n int) []Choice {
		m := make([]Choice, n)
		for k := range m {
			m[k] = choice()
		}
		return m
	}
	n := 1 + r.IntN(blocks)
	identical := r.IntN(3) == 0
	for i := range n {
		b := Block{Choices: menu(1 + r.IntN(options))}
		if grads {
			b.Grad = r.Int64N(16) - 4
		}
		if waiting {
			b.Waiting = r.Int64N(3)
		}
		if identical && i > 0 {
			b = p.Blocks[0]
		}
		p.Blocks = append(p.Blocks, b)
	}
	if r.IntN(4) > 0 {
		p.Head = menu(1 + r.IntN(2))
		for k := range p.Head {
			p.Head[k].Backward += r.Int64N(40)
		}
	}
	if grads {
		p.HeadGrad = r.Int64N(10)
	}
	if segments {
		for range 1 + r.IntN(3) {
			first := r.IntN(n)
			p.Segments = append(p.Segments, Segment{First: first, Length: 1 + r.IntN(n-first), Choices: menu(1 + r.IntN(2))})
		}
	}
	if r.IntN(5) == 0 {
		p.Floor = r.Int64N(200)
	}
	return p
}

// outcome is one plan as the enumeration found it.
type outcome struct {
	peak, time int64
	changes    int
}

// enumerate visits every plan of a small problem. Peaks are found by listing the bytes alive at each event of the
// step, in a manner that shares nothing with the solvers: tensors are put into a list and the list is summed.
func enumerate(p *Problem, visit func(outcome)) {
	type step struct {
		c           Choice
		first, last int
		name        string
	}
	var steps []step
	heads := p.Head
	if len(heads) == 0 {
		heads = []Choice{{}}
	}
	judge := func(head Choice) {
		o := outcome{time: head.Time, peak: p.Floor}
		alive := p.Base
		for _, s := range steps {
			alive += p.Blocks[s.first].Waiting * s.c.Save
		}
		at := func(bytes int64) { o.peak = max(o.peak, bytes) }
		// Forward, with everything that forward holds.
		forward := alive
		for _, s := range steps {
			at(forward + s.c.Forward)
			forward += s.c.Save + s.c.Linger
		}
		at(forward + head.Forward)
		// Backward: saved sets disappear from the end, gradients pile up.
		for _, s := range steps {
			alive += s.c.Save
		}
		at(alive + head.Backward)
		grads := p.HeadGrad
		for k := len(steps) - 1; k >= 0; k-- {
			s := steps[k]
			alive -= s.c.Save
			at(alive + grads + s.c.Backward)
			for i := s.first; i <= s.last; i++ {
				grads += p.Blocks[i].Grad
			}
			o.time += s.c.Time
			if k > 0 && steps[k-1].name != s.name {
				o.changes++
			}
		}
		visit(o)
	}
	name := func(c Choice, k int, segment bool) string {
		s := c.Label
		if s == "" {
			s = string(rune('a' + k))
		}
		if segment {
			s = "segment " + s
		}
		return s
	}
	var walk func(i int)
	walk = func(i int) {
		if i == len(p.Blocks) {
			for _, h := range heads {
				judge(h)
			}
			return
		}
		for k, c := range p.Blocks[i].Choices {
			steps = append(steps, step{c, i, i, name(c, k, false)})
			walk(i + 1)
			steps = steps[:len(steps)-1]
		}
		for _, g := range p.Segments {
			if g.First != i {
				continue
			}
			for k, c := range g.Choices {
				steps = append(steps, step{c, i, i + g.Length - 1, name(c, k, true)})
				walk(i + g.Length)
				steps = steps[:len(steps)-1]
			}
		}
	}
	walk(0)
}

// bestWithin is the lexicographically least (time, peak, changes) within a budget; ok is false if nothing fits.
func bestWithin(all []outcome, budget int64) (best outcome, ok bool) {
	for _, o := range all {
		if o.peak > budget {
			continue
		}
		if !ok || o.time < best.time || (o.time == best.time && (o.peak < best.peak || (o.peak == best.peak && o.changes < best.changes))) {
			best, ok = o, true
		}
	}
	return best, ok
}

// leastPeak is the lowest peak of all plans.
func leastPeak(all []outcome) int64 {
	least := int64(math.MaxInt64)
	for _, o := range all {
		least = min(least, o.peak)
	}
	return least
}

// paretoOf returns the non-dominated (peak, time) pairs by rising peak.
func paretoOf(all []outcome) [][2]int64 {
	fastest := map[int64]int64{}
	var peaks []int64
	for _, o := range all {
		if t, ok := fastest[o.peak]; !ok || o.time < t {
			fastest[o.peak] = o.time
			if !ok {
				peaks = append(peaks, o.peak)
			}
		}
	}
	var front [][2]int64
	for {
		next := int64(math.MaxInt64)
		for _, m := range peaks {
			if (len(front) == 0 || m > front[len(front)-1][0]) && (len(front) == 0 || fastest[m] < front[len(front)-1][1]) {
				next = min(next, m)
			}
		}
		if next == math.MaxInt64 {
			return front
		}
		front = append(front, [2]int64{next, fastest[next]})
	}
}
