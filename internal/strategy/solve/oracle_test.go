package solve

import (
	"math"
	"math/rand/v2"
)

// randomProblem draws a small problem. Its features are switched on at random: gradients that grow, forward rows,
// separate forward prefixes, shared tensors, a floor.
func randomProblem(r *rand.Rand, blocks, options int) *Problem {
	p := &Problem{Base: r.Int64N(20)}
	grads, forward, prefixes, shares := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(3) == 0
	if shares {
		for range 1 + r.IntN(3) {
			p.Shared = append(p.Shared, r.Int64N(40))
		}
	}
	n := 1 + r.IntN(blocks)
	identical := r.IntN(3) == 0
	for i := range n {
		b := Block{Choices: make([]Choice, 1+r.IntN(options))}
		for k := range b.Choices {
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
			if shares {
				c.Holds = r.Uint32() & r.Uint32() & (1<<len(p.Shared) - 1)
			}
			b.Choices[k] = c
		}
		if grads {
			b.Grad = r.Int64N(16) - 4
		}
		if identical && i > 0 {
			b = p.Blocks[0]
		}
		p.Blocks = append(p.Blocks, b)
	}
	if r.IntN(4) > 0 {
		p.HeadBackward, p.HeadForward = r.Int64N(90), r.Int64N(90)
	}
	if grads {
		p.HeadGrad = r.Int64N(10)
	}
	if r.IntN(5) == 0 {
		p.Floor = r.Int64N(200)
	}
	return p
}

// outcome is one plan as the enumeration found it.
type outcome struct{ peak, time int64 }

// enumerate visits every plan of a small problem. Peaks are found by listing the bytes alive at each event of the
// step, in a manner that shares nothing with the solvers: what is alive is put on a pile and taken off.
func enumerate(p *Problem, visit func(outcome)) {
	var taken []Choice
	judge := func() {
		o := outcome{peak: p.Floor}
		at := func(bytes int64) { o.peak = max(o.peak, bytes) }
		forward := p.Base
		for _, c := range taken {
			at(forward + c.Forward)
			forward += c.Save + c.Linger
			o.time += c.Time
		}
		at(forward + p.HeadForward)
		// Backward: saved sets disappear from the end, gradients pile up. A shared tensor goes with its first holder.
		alive := p.Base
		releases := make([]int64, len(taken))
		for u, bytes := range p.Shared {
			for i, c := range taken {
				if c.Holds>>u&1 == 1 {
					releases[i] += bytes
					alive += bytes
					break
				}
			}
		}
		for _, c := range taken {
			alive += c.Save
		}
		at(alive + p.HeadBackward)
		grads := p.HeadGrad
		for i := len(taken) - 1; i >= 0; i-- {
			alive -= taken[i].Save
			at(alive + grads + taken[i].Backward)
			alive -= releases[i]
			grads += p.Blocks[i].Grad
		}
		visit(o)
	}
	var walk func(i int)
	walk = func(i int) {
		if i == len(p.Blocks) {
			judge()
			return
		}
		for _, c := range p.Blocks[i].Choices {
			taken = append(taken, c)
			walk(i + 1)
			taken = taken[:len(taken)-1]
		}
	}
	walk(0)
}

// bestWithin is the lexicographically least (time, peak) within a budget; ok is false if nothing fits.
func bestWithin(all []outcome, budget int64) (best outcome, ok bool) {
	for _, o := range all {
		if o.peak > budget {
			continue
		}
		if !ok || o.time < best.time || (o.time == best.time && o.peak < best.peak) {
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
