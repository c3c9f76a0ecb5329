package report

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// shownPoints is how many points of a frontier a table for people has.
const shownPoints = 25

// Document is the frontier for readers.
func (f *Frontier) Document() *Document {
	e := f.estimation
	d := &Document{Headline: f.headline(), Facts: e.facts(), Data: f, Rows: f.table(f.Points, "")}
	if f.TensorBudget > 0 {
		d.Facts = append(d.Facts, Fact{"tensors", fmt.Sprintf("may take %s of the budget", f.TensorBudget.Both())})
	}
	shown := thinned(f.Points, f.AtBudget)
	t := f.table(shown, "the fastest flat plan at each peak")
	if n := len(f.Points); n > len(shown) {
		t.Notes = append(t.Notes, fmt.Sprintf("%d of %d points; --format csv lists all", len(shown), n))
	}
	if f.LossBytes > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("sizes were rounded up inside the search: a point can be %s above the lowest peak for its time", f.LossBytes.Both()))
	}
	if text := f.plot(); text != nil {
		d.Tables = append(d.Tables, *text)
	}
	d.Tables = append(d.Tables, t, f.named())
	for _, w := range f.Warnings {
		d.Notes = append(d.Notes, "note: "+w)
	}
	return d
}

func (f *Frontier) headline() Headline {
	first, last := &f.Points[0], &f.Points[len(f.Points)-1]
	switch {
	case f.BudgetBytes > 0 && f.AtBudget == nil:
		text := fmt.Sprintf("the lowest peak of a flat plan is %s of %s", first.PeakBytes.Both(), f.BudgetBytes.Decimal())
		return fitLine(f.fit.Verdict, text, f.fit.Margin, gpu.Total(f.fit.Reserve))
	case f.AtBudget != nil:
		return Headline{"FRONTIER", Good, fmt.Sprintf("%s extra compute within %s; 1 GB more buys %s", percent(100*f.AtBudget.RecomputeOverhead), f.BudgetBytes.Decimal(), f.bought())}
	case len(f.Points) == 1 && f.LossBytes > 0:
		return Headline{"FRONTIER", Doubtful, "sizes were rounded so much that one point is left: give a smaller --quantum"}
	case len(f.Points) == 1:
		return Headline{"FRONTIER", Neutral, fmt.Sprintf("no checkpointing lowers the peak of %s", first.PeakBytes.Both())}
	}
	return Headline{"FRONTIER", Neutral, fmt.Sprintf("from %s with %s extra compute to %s with %s",
		first.PeakBytes.Both(), percent(100*first.RecomputeOverhead), last.PeakBytes.Both(), percent(100*last.RecomputeOverhead))}
}

// bought is what a device with 1 GB more would bring.
func (f *Frontier) bought() string {
	was, is := f.AtBudget, f.AtMore
	if was.ExtraNanoseconds == 0 {
		return "nothing: nothing is recomputed"
	}
	saved := was.StepNanoseconds - is.StepNanoseconds
	if saved == 0 {
		return "nothing: no point lies between"
	}
	return fmt.Sprintf("%s a step (%s, %s tokens/s more)", unit.Duration(saved),
		percent(100*float64(saved)/float64(was.StepNanoseconds)), grouped(int64(is.TokensPerSecond-was.TokensPerSecond+0.5)))
}

// thinned picks points at even steps of peak, the ends and the marked one among them.
func thinned(points []FrontierPoint, marked *FrontierPoint) []FrontierPoint {
	if len(points) <= shownPoints {
		return points
	}
	first, last := points[0].PeakBytes, points[len(points)-1].PeakBytes
	var out []FrontierPoint
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

// table lists points, the one at the budget marked.
func (f *Frontier) table(points []FrontierPoint, title string) Table {
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
	for i := range points {
		p := &points[i]
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

// named holds the named strategies against the frontier.
func (f *Frontier) named() Table {
	t := Table{
		Title:   "named strategies against the frontier",
		Columns: []Column{{Name: "strategy"}, {Name: "peak"}, {Name: "extra compute"}, {Name: "slower than the best at its peak"}, {Name: "peak of the best as fast"}},
	}
	for i := range f.Named {
		n := &f.Named[i]
		var behind any = "below every flat plan"
		if n.Behind != nil {
			behind = percent(100 * *n.Behind)
		}
		t.Rows = append(t.Rows, Row{n.Strategy, n.PeakBytes, Percent(100 * n.RecomputeOverhead), behind, n.PeakBytes - n.MoreBytes})
	}
	return t
}
