package solve

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// rotorBySlots is the dynamic program of rotor as published: memory is cut into slots, every size is rounded up, and a
// table holds the least time for every interval and number of slots. It is the baseline that the exact solver is
// timed against, and a check: its answer is never better. One option a stage; −1 if nothing fits.
func rotorBySlots(c *Chain, slots int) int64 {
	n := len(c.Stages)
	unit := float64(c.Budget-c.Base) / float64(slots)
	up := func(x int64) int { return int(math.Ceil(float64(x) / unit)) }
	// Stage n+1 is the loss, which needs and costs nothing.
	a, d, saved := make([]int, n+2), make([]int, n+2), make([]int, n+2)
	uf, ub := make([]int64, n+2), make([]int64, n+2)
	of, ob := make([]int, n+2), make([]int, n+2)
	a[0] = up(c.Input)
	for i, s := range c.Stages {
		o := s.Options[0]
		a[i+1], d[i+1], saved[i+1] = up(s.Output), up(s.Gradient), up(o.Saved)
		uf[i+1], ub[i+1], of[i+1], ob[i+1] = o.Forward, o.Backward, up(o.ForwardOverhead), up(o.BackwardOverhead)
	}
	const never = math.MaxInt64 / 4
	table := make([][][]int64, n+2)
	for s := range table {
		table[s] = make([][]int64, n+2)
	}
	for length := 1; length <= n+1; length++ {
		for s := 1; s+length-1 <= n+1; s++ {
			t := s + length - 1
			row := make([]int64, slots+1)
			for m := range row {
				row[m] = never
			}
			all := max(d[t]+saved[s]+of[s], d[s]+saved[s]+ob[s])
			none := 0
			if s == t {
				for m := all; m <= slots; m++ {
					row[m] = uf[s] + ub[s]
				}
				table[s][t] = row
				continue
			}
			inner := table[s+1][t]
			for m := max(all, saved[s]); m <= slots; m++ {
				row[m] = uf[s] + ub[s] + inner[m-saved[s]]
			}
			var sweep int64
			for j := s + 1; j <= t; j++ {
				i := j - 1
				need := d[t] + a[i] + of[i]
				if i > s {
					need += a[i-1]
				}
				none = max(none, need)
				sweep += uf[i]
				right, left := table[j][t], table[s][j-1]
				for m := max(none, a[j-1]); m <= slots; m++ {
					row[m] = min(row[m], sweep+right[m-a[j-1]]+left[m])
				}
			}
			table[s][t] = row
		}
	}
	if best := table[1][n+1][slots-a[0]]; best < never {
		return best
	}
	return -1
}

// TestNestedAgainstRotor: with sizes that are whole slots the persistent optimum equals rotor's table; with rounding the
// table is never better.
func TestNestedAgainstRotor(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for n := range 200 {
		c := randomChain(r, n%2 == 0, false)
		for k := range int64(5) {
			c.Budget = c.Base + 20 + 15*k
			got := nestedTime(t, c)
			if want := rotorBySlots(c, int(c.Budget-c.Base)); got != want {
				t.Fatalf("chain %d, budget %d: got %d, rotor %d", n, c.Budget, got, want)
			}
			if coarse := rotorBySlots(c, 9); coarse >= 0 && (got < 0 || coarse < got) {
				t.Fatalf("chain %d, budget %d: got %d, rotor with 9 slots %d", n, c.Budget, got, coarse)
			}
		}
	}
}

// TestNestedSharedTypes: stages that say they are copies are solved once; the answer is the same as without saying so.
func TestNestedSharedTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for range 60 {
		c := randomChain(r, false, true)
		kinds := c.Stages[:min(2, len(c.Stages))]
		var mixed []Stage
		for range 3 + r.IntN(6) {
			k := r.IntN(len(kinds))
			s := kinds[k]
			s.Type = k + 1
			mixed = append(mixed, s)
		}
		c.Stages = mixed
		alone := *c
		alone.Stages = nil
		for _, s := range mixed {
			s.Type = 0
			alone.Stages = append(alone.Stages, s)
		}
		shared, err := NestedFrontier(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		want, err := NestedFrontier(context.Background(), &alone)
		if err != nil || len(shared.Points) != len(want.Points) {
			t.Fatalf("got %v, %v, want %v", shared.Points, err, want.Points)
		}
		for k := range want.Points {
			if shared.Points[k] != want.Points[k] {
				t.Fatalf("got %v, want %v", shared.Points, want.Points)
			}
		}
	}
}
