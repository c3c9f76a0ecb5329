package certificate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"ckptplan/internal/plan"
	"ckptplan/internal/thorough"
)

// genNest draws a small chain with one or two ways a layer; copies of layers are likely.
func genNest(t *rapid.T) *nest {
	size := func(most int64) int64 { return rapid.Int64Range(0, most).Draw(t, "size") }
	n := &nest{base: size(9), input: size(6), floor: size(40), forwards: rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "forwards")}
	n.head.fwd, n.head.bwd, n.head.grad, n.head.time = size(12), size(12), size(4), size(5)
	for range rapid.IntRange(1, 5).Draw(t, "layers") {
		if len(n.stages) > 0 && rapid.Bool().Draw(t, "copy") {
			n.stages = append(n.stages, n.stages[len(n.stages)-1])
			continue
		}
		s := stage{out: size(6), grad: size(6), params: size(5)}
		for range rapid.IntRange(1, 2).Draw(t, "ways") {
			w := way{saved: s.out + size(15), fwdOver: size(4), bwdOver: size(12), forward: size(9), backward: size(15)}
			w.early = size(w.forward)
			s.ways = append(s.ways, w)
		}
		n.stages = append(n.stages, s)
	}
	return n
}

// everyPlan calls f for every list over stages first…last that a plan may hold: at the top any list, inside a checkpoint
// one that ends with a layer kept.
func everyPlan(n *nest, first, last int, top bool, f func([]item)) {
	if first > last {
		f(nil)
		return
	}
	for k := range n.stages[first].ways {
		everyPlan(n, first+1, last, top, func(rest []item) { f(append([]item{{first: first, last: first, way: k}}, rest...)) })
	}
	for j := first; j <= last; j++ {
		if j == last && !top {
			continue
		}
		everyPlan(n, first, j, false, func(inner []item) {
			everyPlan(n, j+1, last, top, func(rest []item) {
				f(append([]item{{first: first, last: j, way: -1, inner: inner}}, rest...))
			})
		})
	}
}

// ledger runs a plan on a list of live tensors by name.
type ledger struct {
	n          *nest
	alive      map[string]int64
	peak, time int64
	ran        map[int]int
}

func (b *ledger) touch(more int64) {
	for _, x := range b.alive {
		more += x
	}
	b.peak = max(b.peak, more)
}

func (b *ledger) run(list []item, turn func()) {
	for _, x := range list {
		for l := x.first; l <= x.last; l++ {
			w := passed(b.n, l, x.way)
			if x.way >= 0 {
				b.alive[fmt.Sprint("saved", l)] = w.saved
			} else {
				b.alive[fmt.Sprint("out", l)] = b.n.stages[l].out
			}
			b.touch(w.fwdOver)
			b.time += w.forward
			b.ran[l]++
			if l > x.first {
				delete(b.alive, fmt.Sprint("out", l-1))
			}
		}
	}
	turn()
	for i := len(list) - 1; i >= 0; i-- {
		x := list[i]
		delete(b.alive, fmt.Sprint("out", x.last))
		if x.way < 0 {
			b.run(x.inner, func() {
				end := x.inner[len(x.inner)-1]
				b.time -= b.n.stages[end.last].ways[end.way].early
			})
			continue
		}
		w := b.n.stages[x.first].ways[x.way]
		b.touch(w.bwdOver)
		b.time += w.backward
		delete(b.alive, fmt.Sprint("saved", x.first))
		delete(b.alive, fmt.Sprint("grad", x.first))
		b.alive[fmt.Sprint("parameters", x.first)] = b.n.stages[x.first].params
		if x.first > 0 {
			b.alive[fmt.Sprint("grad", x.first-1)] = b.n.stages[x.first-1].grad
		}
	}
}

// passed is how a layer runs: by a way, or with nothing kept by the fastest, of those the leanest.
func passed(n *nest, l, k int) way {
	if k >= 0 {
		return n.stages[l].ways[k]
	}
	best := n.stages[l].ways[0]
	for _, w := range n.stages[l].ways {
		if w.forward < best.forward || w.forward == best.forward && w.fwdOver < best.fwdOver {
			best = w
		}
	}
	return best
}

func byLedger(n *nest, list []item) (peak, time int64, forwards int) {
	b := &ledger{n: n, alive: map[string]int64{"base": n.base, "input": n.input}, ran: map[int]int{}}
	last := len(n.stages) - 1
	b.run(list, func() {
		b.touch(max(n.head.fwd, n.head.bwd))
		b.time += n.head.time
		b.alive["head"] = n.head.grad
		b.alive[fmt.Sprint("grad", last)] = n.stages[last].grad
	})
	for _, r := range b.ran {
		forwards = max(forwards, r)
	}
	return max(b.peak, n.floor), b.time, forwards
}

// The least time is that of the fastest of all plans that fit, found by running every plan on a list of live tensors,
// for every limit at which the answer changes and one byte below.
func TestLeastTimeEqualsEnumeration(t *testing.T) {
	plans, deep := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := genNest(t)
		best := map[int64]int64{} // by peak
		everyPlan(n, 0, len(n.stages)-1, true, func(list []item) {
			peak, time, forwards := byLedger(n, list)
			p, r, f, err := n.walk(list)
			if err != nil || p != peak || r != time || f != forwards {
				t.Fatalf("%+v: walked %d, %d, %d, %v, on the ledger %d, %d, %d", list, p, r, f, err, peak, time, forwards)
			}
			if n.forwards > 0 && forwards > n.forwards {
				return
			}
			plans++
			if forwards > 2 {
				deep++
			}
			if old, ok := best[peak]; !ok || time < old {
				best[peak] = time
			}
		})
		for at := range best {
			for _, limit := range []int64{at - 1, at} {
				want := int64(math.MaxInt64)
				for peak, time := range best {
					if peak <= limit {
						want = min(want, time)
					}
				}
				got, err := leastTime(context.Background(), n, limit, 1<<40)
				if err != nil || !got.complete {
					t.Fatal(got, err)
				}
				if got.found != (want < math.MaxInt64) || got.found && got.time != want {
					t.Fatalf("limit %d: %+v, the best of all plans takes %d", limit, got, want)
				}
			}
		}
	})
	if plans == 0 || deep == 0 {
		t.Errorf("%d plans, %d of them with a layer that runs more than twice: both are to be drawn", plans, deep)
	}
}

// solved reads the cases of a kind of testdata/solver-cases.json: optima that other programs computed.
func solved[T any](t *testing.T, kind string, check func(t *testing.T, c T)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "solver-cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, raw := range file.Cases {
		var named struct{ ID, Kind string }
		if err := json.Unmarshal(raw, &named); err != nil {
			t.Fatal(err)
		}
		if named.Kind != kind {
			continue
		}
		n++
		t.Run(named.ID, func(t *testing.T) {
			var c T
			if err := json.Unmarshal(raw, &c); err != nil {
				t.Fatal(err)
			}
			check(t, c)
		})
	}
	if n == 0 {
		t.Errorf("no case of kind %s", kind)
	}
}

// Optima of rotor's class that its published recurrence, programmed elsewhere, found for whole-number chains.
func TestLeastTimeOfPublishedChains(t *testing.T) {
	type chainCase struct {
		Inputs struct {
			Forward     []float64 `json:"forward_time"`
			Backward    []float64 `json:"backward_time"`
			Sizes       []int64   `json:"input_and_output_sizes_a0_to_an"`
			Saved       []int64   `json:"saved_all_sizes"`
			Gradients   []int64   `json:"gradient_sizes_d0_to_dn"`
			ForwardOver []int64   `json:"forward_overhead"`
			BackOver    []int64   `json:"backward_overhead"`
			Parameters  []int64   `json:"parameter_gradient_sizes"`
		} `json:"inputs"`
		Expected struct {
			Points []struct {
				Memory     int64  `json:"memory"`
				Persistent *int64 `json:"persistent_optimum"`
			} `json:"points"`
		} `json:"expected"`
	}
	check := func(t *testing.T, c chainCase) {
		in := &c.Inputs
		n := &nest{input: in.Sizes[0]}
		for i := range in.Forward {
			s := stage{out: in.Sizes[i+1], grad: in.Gradients[i+1]}
			if in.Parameters != nil {
				s.params = in.Parameters[i]
			}
			s.ways = []way{{saved: in.Saved[i], fwdOver: in.ForwardOver[i], bwdOver: in.BackOver[i], forward: int64(in.Forward[i]), backward: int64(in.Backward[i])}}
			n.stages = append(n.stages, s)
		}
		for _, p := range c.Expected.Points {
			got, err := leastTime(context.Background(), n, p.Memory, 1<<40)
			if err != nil || !got.complete || got.found != (p.Persistent != nil) || got.found && got.time != *p.Persistent {
				t.Errorf("memory %d: %+v %v, want %v", p.Memory, got, err, p.Persistent)
			}
		}
	}
	solved(t, "chain", check)
	solved(t, "chain_growing_gradients", check)
}

// A uniform chain where boundary tensors alone cost memory needs Griewank and Walther's number of forward steps.
func TestLeastTimeOfRevolve(t *testing.T) {
	type revolveCase struct {
		Inputs struct {
			Steps       int   `json:"steps"`
			Checkpoints int64 `json:"checkpoints"`
		} `json:"inputs"`
		Expected struct {
			Total int64 `json:"total_forward_steps"`
		} `json:"expected"`
	}
	solved(t, "revolve", func(t *testing.T, c revolveCase) {
		if c.Inputs.Steps > 100 && !thorough.On {
			t.Skip("long")
		}
		const big = 1 << 20 // one saved set, and no second, is alive at a time
		n := &nest{input: 1}
		for range c.Inputs.Steps {
			n.stages = append(n.stages, stage{out: 1, ways: []way{{saved: big, forward: 1}}})
		}
		got, err := leastTime(context.Background(), n, c.Inputs.Checkpoints+1+big, 1<<40)
		if err != nil || !got.found || got.time != c.Expected.Total {
			t.Errorf("%+v %v, want %d", got, err, c.Expected.Total)
		}
	})
}

func TestLeastTimeSaysThatItStopped(t *testing.T) {
	n := &nest{}
	for i := range 9 {
		n.stages = append(n.stages, stage{out: 1, ways: []way{{saved: 5, forward: int64(1 + i)}}})
	}
	c := &checker{Report: &Report{}, c: &plan.Certificate{Status: "optimal", Closed: plan.CertifiedSearch{How: "recurrence"}, Chain: &plan.CertifiedChain{Bound: 90}}}
	if err := c.least(context.Background(), n, 30, 90, 10); err != nil || c.Err() != nil || c.Count(Unproved) != 1 || c.Count(Holds) != 2 {
		t.Error(err, c.Findings) // closed and status agree with what is claimed; the bound is not held
	}
	if got, err := leastTime(context.Background(), n, 30, 10); err != nil || got.complete || got.found {
		t.Error(got, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := leastTime(ctx, n, 30, 1<<40); err == nil {
		t.Error(got, "a cancelled search ends without an error")
	}
}
