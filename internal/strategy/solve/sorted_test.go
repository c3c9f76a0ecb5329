package solve

import (
	"context"
	"math/rand/v2"
	"testing"
)

// TestSortedRunsEqualEnumeration: with the options of equal blocks in order, search finds the time and the peak that an
// enumeration of all plans, in any order, finds.
func TestSortedRunsEqualEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 10))
	inOrder, forward := 0, 0
	for n := range 6000 {
		p := randomProblem(r, 3, 4)
		first := p.Blocks[r.IntN(len(p.Blocks))]
		for range 1 + r.IntN(4) {
			p.Blocks = append(p.Blocks, first)
		}
		if len(p.Shared) > 0 && r.IntN(2) == 0 {
			for k := range first.Choices { // the slice is that of all blocks of the run
				first.Choices[k].Holds = first.Choices[0].Holds
			}
		}
		var all []outcome
		enumerate(p, func(o outcome) { all = append(all, o) })
		p.Budget = all[r.IntN(len(all))].peak
		var want outcome
		for i, o := range all {
			if o.peak <= p.Budget && (i == 0 || want.peak == 0 || o.time < want.time || o.time == want.time && o.peak < want.peak) {
				want = o
			}
		}
		g := newGraph(p)
		edges, _ := g.worthwhile(nil, 0)
		sorted := g.sorted(edges, 2)
		if len(sorted.nodes) > len(g.nodes) {
			inOrder++
			if g.forward {
				forward++
			}
		}
		s := newSearch(sorted)
		if err := s.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		got := s.take(p)
		if got == nil || p.Floor <= p.Budget && (got.Time != want.time || got.Peak != want.peak) {
			t.Fatalf("problem %d: %+v, enumeration finds %+v\n%+v", n, got, want, p)
		}
	}
	if inOrder < 1500 || forward < 500 {
		t.Errorf("only %d problems had a run in order, %d with forward rows", inOrder, forward)
	}
}

// TestSortedRunIsAnOrderOfOptions: two blocks that leave a gradient of 25, with options that save 16 and 33: what saves
// less than the gradient comes first, whatever its transient.
func TestSortedRunIsAnOrderOfOptions(t *testing.T) {
	menu := []Choice{{Save: 33, Backward: 90}, {Save: 16, Backward: 60, Time: 2}, {Save: 40, Backward: 41, Time: 1}}
	p := &Problem{Blocks: []Block{{menu, 25}, {menu, 25}}, Budget: 1000}
	g := newGraph(p)
	edges, _ := g.worthwhile(nil, 0)
	if got := g.order(0, edges); len(got) != 3 || got[0] != 1 || got[1] != 0 || got[2] != 2 {
		t.Error(got)
	}
}

// TestLongRunsEqualSearchInAnyOrder: for runs long enough that their options are put in order, SolveFlat finds the time and
// the peak of the search over all orders.
func TestLongRunsEqualSearchInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for n := range 60 {
		p := randomProblem(r, 2, 5)
		last := p.Blocks[len(p.Blocks)-1]
		for range longRun + r.IntN(30) {
			p.Blocks = append(p.Blocks, last)
		}
		least, err := minPeak(context.Background(), p, newGraph(p))
		if err != nil {
			t.Fatal(err)
		}
		p.Budget = least.Peak + r.Int64N(1+least.Peak)
		s := newSearch(newGraph(p))
		if err := s.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := s.take(p)
		got, err := SolveFlat(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if got.Time != want.Time || got.Peak != want.Peak || got.Status != Optimal {
			t.Errorf("problem %d: time %d, peak %d (%s), in any order %d and %d", n, got.Time, got.Peak, got.Status, want.Time, want.Peak)
		}
	}
}
