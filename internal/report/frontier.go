package report

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// shownPoints is the number of points of a frontier in a table for people.
const shownPoints = 25

// Frontier lays out the trade-off between peak and time.
func Frontier(f *study.Frontier) *Document {
	d := &Document{Headline: frontierLine(f), Facts: stepFacts(&f.Model, f.BudgetBytes, f.GPU), Data: f, Rows: points(f, f.Points, ""), Notes: notes(f.Warnings)}
	if f.TensorBudget > 0 {
		d.Facts = append(d.Facts, Fact{"tensors", fmt.Sprintf("may take %s of the budget", f.TensorBudget.Both())})
	}
	shown := thinned(f.Points, f.AtBudget)
	t := points(f, shown, "the fastest flat plan at each peak")
	if n := len(f.Points); n > len(shown) {
		t.Notes = append(t.Notes, fmt.Sprintf("%d of %d points; --format csv lists all", len(shown), n))
	}
	if f.LossBytes > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("sizes were rounded up inside the search: a point can be %s above the lowest peak for its time", f.LossBytes.Both()))
	}
	if text := sketch(f); text != nil {
		d.Tables = append(d.Tables, *text)
	}
	d.Tables = append(d.Tables, t, named(f))
	return d
}

func frontierLine(f *study.Frontier) Headline {
	first, last := &f.Points[0], &f.Points[len(f.Points)-1]
	switch {
	case f.BudgetBytes > 0 && f.AtBudget == nil:
		text := fmt.Sprintf("the lowest peak of a flat plan is %s of %s", first.PeakBytes.Both(), f.BudgetBytes.Decimal())
		return fitLine(f.Fit.Verdict, text, f.Fit.Margin, gpu.Total(f.Fit.Reserve))
	case f.AtBudget != nil:
		return Headline{"FRONTIER", Good, fmt.Sprintf("%s extra compute within %s; 1 GB more buys %s", unit.Percent(100*f.AtBudget.RecomputeOverhead), f.BudgetBytes.Decimal(), bought(f))}
	case len(f.Points) == 1 && f.LossBytes > 0:
		return Headline{"FRONTIER", Doubtful, "sizes were rounded so much that one point is left: give a smaller --quantum"}
	case len(f.Points) == 1:
		return Headline{"FRONTIER", Neutral, fmt.Sprintf("no checkpointing lowers the peak of %s", first.PeakBytes.Both())}
	}
	return Headline{"FRONTIER", Neutral, fmt.Sprintf("from %s with %s extra compute to %s with %s",
		first.PeakBytes.Both(), unit.Percent(100*first.RecomputeOverhead), last.PeakBytes.Both(), unit.Percent(100*last.RecomputeOverhead))}
}

// bought is what 1 GB more would gain.
func bought(f *study.Frontier) string {
	was, is := f.AtBudget, f.AtMore
	if was.ExtraNanoseconds == 0 {
		return "nothing: nothing is recomputed"
	}
	saved := was.StepNanoseconds - is.StepNanoseconds
	if saved == 0 {
		return "nothing: no point lies between"
	}
	return fmt.Sprintf("%s a step (%s, %s tokens/s more)", unit.Duration(saved),
		unit.Percent(100*float64(saved)/float64(was.StepNanoseconds)), unit.Grouped(int64(is.TokensPerSecond-was.TokensPerSecond+0.5)))
}

// thinned picks points at even steps of peak, the ends and the marked one among them.
func thinned(points []study.FrontierPoint, marked *study.FrontierPoint) []study.FrontierPoint {
	if len(points) <= shownPoints {
		return points
	}
	first, last := points[0].PeakBytes, points[len(points)-1].PeakBytes
	var out []study.FrontierPoint
	next := first
	for i := range points {
		p := &points[i]
		if p.PeakBytes < next && i < len(points)-1 && p != marked {
			continue
		}
		out = append(out, *p)
		if p.PeakBytes >= next {
			next = first + (last-first)*(unit.Bytes(int64(shownPoints-2)*int64(p.PeakBytes-first)/int64(last-first))+1)/(shownPoints-2)
		}
	}
	return out
}

// points lists points, the one at the budget marked.
func points(f *study.Frontier, list []study.FrontierPoint, title string) Table {
	t := Table{Title: title, Columns: []Column{
		{Name: "peak", Key: "peak_tensor_bytes"},
		{Name: "extra time", Key: "extra_ns"},
		{Name: "step", Key: "step_ns"},
		{Name: "extra compute", Key: "recompute_overhead"},
		{Name: "tokens/s", Key: "tokens_per_second"},
	}}
	marks := title != "" && f.AtBudget != nil
	if marks {
		t.Columns = append(t.Columns, Column{Name: ""})
	}
	for i := range list {
		p := &list[i]
		r := Row{p.PeakBytes, unit.Duration(p.ExtraNanoseconds), unit.Duration(p.StepNanoseconds), Percent(100 * p.RecomputeOverhead), Rate(p.TokensPerSecond)}
		if marks {
			mark := ""
			if *p == *f.AtBudget {
				mark = "the budget"
			}
			r = append(r, mark)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// named compares the named strategies with the frontier.
func named(f *study.Frontier) Table {
	t := Table{
		Title:   "named strategies against the frontier",
		Columns: []Column{{Name: "strategy"}, {Name: "peak"}, {Name: "extra compute"}, {Name: "slower than the best at its peak"}, {Name: "peak of the best as fast"}},
	}
	for i := range f.Named {
		n := &f.Named[i]
		var behind any = "below every flat plan"
		if n.Behind != nil {
			behind = unit.Percent(100 * *n.Behind)
		}
		t.Rows = append(t.Rows, Row{n.Strategy, n.PeakBytes, Percent(100 * n.RecomputeOverhead), behind, n.PeakBytes - n.MoreBytes})
	}
	return t
}
