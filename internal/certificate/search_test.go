package certificate

import (
	"context"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"ckptplan/internal/plan"
)

// genChain draws a small chain: mixed sizes, so that backward rows, forward rows or the head may bind; some saves
// negative; shared tensors.
func genChain(t *rapid.T) *chain {
	size := func(most int64) int64 { return rapid.Int64Range(0, most).Draw(t, "size") }
	n := rapid.IntRange(1, 5).Draw(t, "layers")
	c := &chain{base: size(20), headFwd: size(30), headBwd: size(30), headGrad: size(5), floor: size(60)}
	for range rapid.IntRange(0, 2).Draw(t, "shared") {
		c.shared = append(c.shared, size(12))
	}
	wide := rapid.SampledFrom([]int64{0, 1, 6}).Draw(t, "forward spread")
	for range n {
		c.grads = append(c.grads, size(4))
		var menu []cost
		for range rapid.IntRange(1, 4).Draw(t, "options") {
			o := cost{save: size(12) - 2, fwd: size(25), bwd: size(25), time: size(10)}
			o.saveFwd = o.save + rapid.Int64Range(0, wide).Draw(t, "spread")
			o.holds = uint32(rapid.IntRange(0, 1<<len(c.shared)-1).Draw(t, "holds"))
			menu = append(menu, o)
		}
		c.menu = append(c.menu, menu)
	}
	c.budget = c.base + rapid.Int64Range(0, 90).Draw(t, "room")
	return c
}

// everyChoice calls f for each choice, with its peak and time from the definition: what is alive at each row, summed
// from scratch.
func everyChoice(c *chain, f func(choice []int, peak, time int64)) {
	n := len(c.menu)
	choice := make([]int, n)
	for {
		peak, time := c.floor, int64(0)
		for row := range n + 1 { // the head is row n
			back, front := c.base, c.base
			held := map[int]bool{}
			for j := range n {
				o := c.menu[j][choice[j]]
				if j < row {
					back += o.save
					front += o.saveFwd
				}
				if j <= row {
					for u := range c.shared {
						held[u] = held[u] || o.holds&(1<<u) != 0
					}
				}
				if j > row {
					back += c.grads[j]
				}
			}
			for u, h := range held {
				if h {
					back += c.shared[u]
				}
			}
			if row == n {
				back += c.headBwd
				front += c.headFwd
			} else {
				o := c.menu[row][choice[row]]
				back += o.bwd + c.headGrad
				front += o.fwd
				time += o.time
			}
			peak = max(peak, back, front)
		}
		f(choice, peak, time)
		i := 0
		for ; i < n; i++ {
			if choice[i]++; choice[i] < len(c.menu[i]) {
				break
			}
			choice[i] = 0
		}
		if i == n {
			return
		}
	}
}

func TestSearchEqualsEnumeration(t *testing.T) {
	fits, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := genChain(t)
		best := int64(math.MaxInt64)
		everyChoice(c, func(choice []int, peak, time int64) {
			if p, r := c.peak(choice); p != peak || r != time {
				t.Fatalf("choice %v: peak %d and time %d, by definition %d and %d", choice, p, r, peak, time)
			}
			if peak <= c.budget {
				best = min(best, time)
			}
		})
		out, err := search(context.Background(), c, math.MaxInt64, 1<<40)
		if err != nil || !out.complete {
			t.Fatal(out, err)
		}
		if out.found != (best < math.MaxInt64) || out.found && out.time != best {
			t.Fatalf("found %v %d, the best of all choices is %d", out.found, out.time, best)
		}
		if !out.found {
			none++
			return
		}
		fits++
		if again, _ := search(context.Background(), c, best, 1<<40); again.found {
			t.Fatalf("a choice of %d, the best of all is %d", again.time, best)
		}
		if again, _ := search(context.Background(), c, best+1, 1<<40); !again.found || again.time != best {
			t.Fatalf("the best choice of %d is not found under %d", best, best+1)
		}
	})
	if fits == 0 || none == 0 {
		t.Errorf("%d problems with a choice that fits and %d without: both kinds are to be drawn", fits, none)
	}
}

func TestSearchSaysThatItStopped(t *testing.T) {
	c := &chain{budget: 10, menu: [][]cost{{{save: 5, time: 0}, {save: 1, time: 1}}, {{save: 5, time: 0}, {save: 1, time: 1}}}, grads: []int64{0, 0}, headBwd: 3}
	if out, err := search(context.Background(), c, math.MaxInt64, 1); err != nil || out.complete || out.found {
		t.Error(out, err)
	}
	if out, err := search(context.Background(), c, math.MaxInt64, 100); err != nil || !out.complete || out.time != 1 {
		t.Error(out, err)
	}
	c.shared = make([]int64, maxShared+1)
	if out, err := search(context.Background(), c, math.MaxInt64, 100); err != nil || out.complete {
		t.Error(out, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.shared = nil
	if _, err := search(ctx, c, math.MaxInt64, 100); err == nil {
		t.Error("a cancelled search ends without an error")
	}
}

// Whatever the prices of memory, no choice that fits is faster than the bound.
func TestBoundIsBelowEveryChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genChain(t)
		var rows []plan.PricedRow
		for i := range len(c.menu) + 1 {
			row := strconv.Itoa(i)
			if i == len(c.menu) {
				row = "head"
			}
			for _, phase := range []string{"backward", "forward"} {
				if rapid.Bool().Draw(t, "priced") {
					rows = append(rows, plan.PricedRow{Phase: phase, Row: row, Lambda: rapid.Int64Range(0, 2*tib).Draw(t, "lambda")})
				}
			}
		}
		b, err := c.bound(rows)
		if err != nil {
			t.Fatal(err)
		}
		everyChoice(c, func(choice []int, peak, time int64) {
			if peak <= c.budget && time < b {
				t.Fatalf("choice %v fits and takes %d, below the bound %d", choice, time, b)
			}
		})
	})
}

// A bound added up by hand: two layers, keep (10 bytes, 0 ns) or drop (2 bytes, 6 ns), a head of 5 bytes, 20 bytes in
// all. With 0.75 ns a byte on the head's row: 2·min(0 + 7.5, 6 + 1.5) + 0.75·(5 − 20) = 15 − 11.25 = 3.75, rounded up 4.
func TestBoundByHand(t *testing.T) {
	menu := []cost{{save: 10}, {save: 2, time: 6}}
	c := &chain{budget: 20, menu: [][]cost{menu, menu}, grads: []int64{0, 0}, headBwd: 5}
	b, err := c.bound([]plan.PricedRow{{Phase: "backward", Row: "head", Lambda: tib * 3 / 4}})
	if err != nil || b != 4 {
		t.Error(b, err)
	}
	for _, r := range []plan.PricedRow{{Phase: "backward", Row: "3", Lambda: 1}, {Phase: "sideways", Row: "0", Lambda: 1}, {Phase: "forward", Row: "tail", Lambda: 1}, {Phase: "forward", Row: "0", Lambda: -1}} {
		if b, err := c.bound([]plan.PricedRow{r}); err == nil {
			t.Errorf("%v gives a bound of %d", r, b)
		}
	}
}
