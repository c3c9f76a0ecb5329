package report

import (
	"testing"

	"ckptplan/internal/unit"
)

// stair is a frontier of n points, 1 MiB and 1 ms apart, over a step of 1 s.
func stair(n int) *Frontier {
	f := &Frontier{base: 1e9}
	for i := range n {
		f.Points = append(f.Points, f.point(unit.Bytes(100+i)*unit.MiB, int64(n-1-i)*1e6, 1000))
	}
	return f
}

func TestThinnedKeepsTheEndsAndTheBudget(t *testing.T) {
	for _, n := range []int{1, 2, shownPoints, shownPoints + 1, 100, 5000} {
		f := stair(n)
		for _, at := range []int{0, 1, n / 2, n - 1} {
			if at >= n {
				continue
			}
			out := thinned(f.Points, &f.Points[at])
			if len(out) > shownPoints+1 {
				t.Errorf("%d points: %d shown", n, len(out))
			}
			found := map[FrontierPoint]bool{}
			for i, p := range out {
				found[p] = true
				if i > 0 && p.PeakBytes <= out[i-1].PeakBytes {
					t.Errorf("%d points: not by rising peak", n)
				}
			}
			if !found[f.Points[0]] || !found[f.Points[n-1]] || !found[f.Points[at]] {
				t.Errorf("%d points, budget at %d: an end or the budget is missing", n, at)
			}
		}
	}
}

// A strategy at 150.5 MiB with 80 ms is held against the point of 150 MiB, which has 49 ms: 1080/1049 − 1. The first
// point with at most 80 ms is that of 119 MiB.
func TestHold(t *testing.T) {
	f := stair(100)
	n := NamedStrategy{FrontierPoint: f.point(150*unit.MiB+unit.MiB/2, 80e6, 1000)}
	f.hold(&n)
	if want := 1080.0/1049 - 1; n.Behind == nil || *n.Behind < want-1e-12 || *n.Behind > want+1e-12 {
		t.Errorf("behind %v, want %g", n.Behind, want)
	}
	if want := 150*unit.MiB + unit.MiB/2 - 119*unit.MiB; n.MoreBytes != want {
		t.Errorf("more %d, want %d", n.MoreBytes, want)
	}
	low := NamedStrategy{FrontierPoint: f.point(99*unit.MiB, 200e6, 1000)}
	if f.hold(&low); low.Behind != nil {
		t.Error("no point is below 99 MiB")
	}
}

func TestBought(t *testing.T) {
	f := stair(100)
	for _, c := range []struct {
		at, more int
		want     string
	}{
		{0, 10, "10.0 ms a step (0.9 %, 8 tokens/s more)"}, // 1.099 s to 1.089 s: 909.9 to 918.3 tokens/s
		{5, 5, "nothing: no point lies between"},
		{99, 99, "nothing: nothing is recomputed"},
	} {
		f.AtBudget, f.AtMore = &f.Points[c.at], &f.Points[c.more]
		if got := f.bought(); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.at, c.more, got, c.want)
		}
	}
}
