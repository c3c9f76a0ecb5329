package report

import (
	"testing"

	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// falling is a frontier of n points, 1 MiB and 1 ms apart, over a step of 1 s in which 1,000 tokens are trained.
func falling(n int) *study.Frontier {
	f := &study.Frontier{}
	for i := range n {
		extra := int64(n-1-i) * 1e6
		f.Points = append(f.Points, study.FrontierPoint{
			PeakBytes: unit.Bytes(100+i) * unit.MiB, ExtraNanoseconds: extra, StepNanoseconds: 1e9 + extra, TokensPerSecond: 1e12 / float64(1e9+extra),
		})
	}
	return f
}

func TestThinnedKeepsTheEndsAndTheBudget(t *testing.T) {
	for _, n := range []int{1, 2, shownPoints, shownPoints + 1, 100, 5000} {
		f := falling(n)
		for _, at := range []int{0, 1, n / 2, n - 1} {
			if at >= n {
				continue
			}
			out := thinned(f.Points, &f.Points[at])
			if len(out) > shownPoints+1 {
				t.Errorf("%d points: %d shown", n, len(out))
			}
			found := map[study.FrontierPoint]bool{}
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

func TestBought(t *testing.T) {
	f := falling(100)
	for _, c := range []struct {
		at, more int
		want     string
	}{
		{0, 10, "10.0 ms a step (0.9 %, 8 tokens/s more)"}, // 1.099 s to 1.089 s: 909.9 to 918.3 tokens/s
		{5, 5, "nothing: no point lies between"},
		{99, 99, "nothing: nothing is recomputed"},
	} {
		f.AtBudget, f.AtMore = &f.Points[c.at], &f.Points[c.more]
		if got := bought(f); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.at, c.more, got, c.want)
		}
	}
}
