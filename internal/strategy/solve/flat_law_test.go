package solve

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawProblem draws a problem of a few dozen blocks, beyond what enumeration covers.
func drawProblem(t *rapid.T) *Problem {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	return randomProblem(r, rapid.IntRange(1, 24).Draw(t, "blocks"), rapid.IntRange(1, 6).Draw(t, "options"))
}

func mustSolve(t *rapid.T, p *Problem) *Solution {
	t.Helper()
	s, err := SolveFlat(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if peak, time := p.Evaluate(s.Choice); peak != s.Peak || time != s.Time || peak > p.Budget || s.Status != Optimal || s.Dual.Bound > s.Time {
		t.Fatalf("plan of peak %d and time %d believed %+v, budget %d", peak, time, s, p.Budget)
	}
	return s
}

// TestFlatLaws states what holds for every problem, whatever its optimum.
func TestFlatLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		least, err := MinPeak(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		p.Budget = least.Peak + rapid.Int64Range(0, 150).Draw(t, "more")
		s := mustSolve(t, p)

		// The boundary of feasibility is exact.
		tight := *p
		tight.Budget = least.Peak - 1
		var infeasible *InfeasibleError
		if _, err := SolveFlat(context.Background(), &tight); !errors.As(err, &infeasible) || infeasible.Needed != least.Peak {
			t.Fatalf("one byte below the least: %v", err)
		}
		tight.Budget = least.Peak
		if at := mustSolve(t, &tight); at.Time != least.Time || at.Time < s.Time {
			t.Fatalf("at the least peak %d ns, with more memory %d ns", at.Time, s.Time)
		}

		// A budget cut to the plan's own peak gives the plan again; more never costs more.
		again := *p
		again.Budget = s.Peak
		if a := mustSolve(t, &again); a.Time != s.Time || a.Peak != s.Peak {
			t.Fatalf("at the plan's own peak %d: time %d, not %d", s.Peak, a.Time, s.Time)
		}
		again.Budget = p.Budget + rapid.Int64Range(1, 100).Draw(t, "extra")
		if a := mustSolve(t, &again); a.Time > s.Time {
			t.Fatalf("%d bytes more cost %d ns more", again.Budget-p.Budget, a.Time-s.Time)
		}

		// Another unit of bytes or time changes nothing else.
		bytes, ns := rapid.Int64Range(2, 1<<20).Draw(t, "bytes"), rapid.Int64Range(2, 1<<20).Draw(t, "ns")
		scaled := scale(p, bytes, ns)
		if a := mustSolve(t, scaled); a.Time != s.Time*ns || a.Peak != s.Peak*bytes {
			t.Fatalf("scaled by %d and %d: peak %d, time %d, not %d, %d", bytes, ns, a.Peak, a.Time, s.Peak*bytes, s.Time*ns)
		}

		// One option more never hurts.
		richer := *p
		richer.Blocks = slices.Clone(p.Blocks)
		i := rapid.IntRange(0, len(p.Blocks)-1).Draw(t, "block")
		o := Choice{Save: rapid.Int64Range(0, 30).Draw(t, "save"), Backward: rapid.Int64Range(0, 50).Draw(t, "backward"), Time: rapid.Int64Range(0, 25).Draw(t, "time")}
		richer.Blocks[i].Choices = append(slices.Clone(p.Blocks[i].Choices), o)
		if a := mustSolve(t, &richer); a.Time > s.Time || (a.Time == s.Time && a.Peak > s.Peak) {
			t.Fatalf("with another option: time %d, peak %d, not %d, %d", a.Time, a.Peak, s.Time, s.Peak)
		}
	})
}

func scale(p *Problem, bytes, ns int64) *Problem {
	menu := func(m []Choice) []Choice {
		m = slices.Clone(m)
		for k := range m {
			m[k].Save *= bytes
			m[k].Linger *= bytes
			m[k].Forward *= bytes
			m[k].Backward *= bytes
			m[k].Time *= ns
		}
		return m
	}
	q := &Problem{Base: p.Base * bytes, HeadForward: p.HeadForward * bytes, HeadBackward: p.HeadBackward * bytes, HeadGrad: p.HeadGrad * bytes, Floor: p.Floor * bytes, Budget: p.Budget * bytes}
	for _, b := range p.Blocks {
		b.Choices, b.Grad = menu(b.Choices), b.Grad*bytes
		q.Blocks = append(q.Blocks, b)
	}
	for _, x := range p.Shared {
		q.Shared = append(q.Shared, x*bytes)
	}
	return q
}

// TestFlatOrderOfIdenticalLayers: for identical layers without gradients that grow, full recompute comes first and
// keep-all last, each option in one run (decreasing backward − save; an exchange argument).
func TestFlatOrderOfIdenticalLayers(t *testing.T) {
	p := transformerProblem(40, false)
	for i := range p.Blocks {
		p.Blocks[i].Grad = 0
	}
	least, err := MinPeak(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for k := range int64(10) {
		p.Budget = least.Peak + k*2e9
		s, err := SolveFlat(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		spread := func(k int) int64 { return p.Blocks[0].Choices[k].Backward - p.Blocks[0].Choices[k].Save }
		for i := range s.Choice[1:] {
			if s.Choice[i] != s.Choice[i+1] && spread(s.Choice[i]) < spread(s.Choice[i+1]) {
				t.Errorf("budget %d: options %v are not in order of backward − save", p.Budget, s.Choice)
				break
			}
		}
	}
}

// TestFlatIsDeterministic: the same problem gives the same plan, byte for byte.
func TestFlatIsDeterministic(t *testing.T) {
	p := transformerProblem(60, true)
	least, err := MinPeak(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	p.Budget = least.Peak + 5e9
	first, err := SolveFlat(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := SolveFlat(context.Background(), p)
		if err != nil || !slices.Equal(first.Choice, again.Choice) {
			t.Fatalf("got %v, then %v, %v", first.Choice, again.Choice, err)
		}
	}
}

// TestFlatStops: whenever ctx ends, the search ends within 0.3 s.
func TestFlatStops(t *testing.T) {
	p := transformerProblem(1000, true)
	least, err := MinPeak(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	p.Budget = least.Peak + 10e9
	for after := time.Duration(0); after < 200*time.Millisecond; after += 20 * time.Millisecond {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		begin := time.Now()
		_, err := SolveFlat(ctx, p)
		if spent := time.Since(begin); spent > after+300*time.Millisecond {
			t.Errorf("took %v after ctx had ended", spent-after)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
}

// TestFlatExtremes: sizes and times of zero, one block, no block, ten thousand blocks, numbers that would overflow.
func TestFlatExtremes(t *testing.T) {
	solve := func(p *Problem) *Solution {
		t.Helper()
		s, err := SolveFlat(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := solve(&Problem{Base: 7, Budget: 7}); s.Peak != 7 || s.Time != 0 {
		t.Errorf("no block: %+v", s)
	}
	if s := solve(&Problem{Blocks: []Block{{Choices: []Choice{{}, {}}}}}); s.Peak != 0 || s.Time != 0 {
		t.Errorf("zeros: %+v", s)
	}
	if s := solve(&Problem{Budget: 5, Blocks: []Block{{Choices: []Choice{{Save: 9, Backward: 9}, {Backward: 5, Time: 3}}}}}); s.Peak != 5 || s.Time != 3 || s.Choice[0] != 1 {
		t.Errorf("one block: %+v", s)
	}
	long := &Problem{Budget: 100}
	for range 10000 {
		long.Blocks = append(long.Blocks, Block{Choices: []Choice{{Save: 1, Backward: 1}, {Time: 1}}})
	}
	if s := solve(long); s.Time != 9900 || s.Peak != 100 {
		t.Errorf("10,000 blocks: peak %d, time %d", s.Peak, s.Time)
	}
	for name, p := range map[string]*Problem{
		"sum of sizes":  {Budget: 1, Blocks: []Block{{Choices: []Choice{{Save: 1 << 60, Backward: 1 << 60}}}, {Choices: []Choice{{Save: 1 << 60}}}}},
		"time":          {Budget: 1, Blocks: []Block{{Choices: []Choice{{Time: 1 << 62}}}}},
		"not shared":    {Budget: 1, Blocks: []Block{{Choices: []Choice{{Holds: 1}}}}},
		"negative time": {Budget: 1, Blocks: []Block{{Choices: []Choice{{Time: -1}}}}},
		"no option":     {Budget: 1, Blocks: []Block{{}}},
		"negative base": {Base: -1},
		"huge budget":   {Budget: 1 << 62},
		"negative save": {Blocks: []Block{{Choices: []Choice{{Save: -1 << 62}}}}},
		"huge grads":    {Blocks: []Block{{Grad: -1 << 62, Choices: []Choice{{}}}}},
		"huge linger":   {Blocks: []Block{{Choices: []Choice{{Linger: 1 << 62}}}}},
	} {
		if _, err := SolveFlat(context.Background(), p); !errors.Is(err, ErrInvalidProblem) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
