package report

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/plan"
	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// Optimization lays out a plan and its alternatives.
func Optimization(o *study.Optimization) *Document {
	e := o.Estimation
	d := &Document{Data: o, Facts: stepFacts(&e.Model, o.BudgetBytes, e.GPU), Rows: optimizationRows(o), Notes: notes(o.Warnings)}
	if o.Plan == nil {
		d.Headline = Headline{"DOES NOT FIT", Bad, o.Refusal}
		d.Tables = append(d.Tables, terms(e), alternatives(e))
	} else {
		d.Headline = planLine(o)
		if o.TensorBudgetBytes > 0 {
			d.Facts = append(d.Facts, reserveFact(o))
		}
		if o.RestrictionPrice != nil {
			d.Facts = append(d.Facts, targetFact(o))
		}
		if o.Lines != "" {
			d.Tables = append(d.Tables, Table{Title: "what goes into " + o.For.Title, Notes: strings.Split(strings.TrimRight(o.Lines, "\n"), "\n")})
		}
		d.Tables = append(d.Tables, layers(o))
		if len(o.Largest) > 0 {
			d.Tables = append(d.Tables, largest(o))
		}
		if len(o.Batches) > 0 {
			d.Tables = append(d.Tables, batches(o))
		}
		d.Tables = append(d.Tables, alternatives(e))
		if len(o.Menu) > 0 {
			d.Tables = append(d.Tables, menu(o))
		}
		d.Tables = append(d.Tables, Table{Title: "why", Notes: o.Explanation})
	}
	if len(o.Hints) > 0 {
		d.Tables = append(d.Tables, hints(e, o.Hints))
	}
	return d
}

// optimizationRows are the estimates with the sizes of the step, which an objective may have chosen.
func optimizationRows(o *study.Optimization) Table {
	t := entryRows(o.Estimation.Estimates)
	t.Columns = append(t.Columns, Column{Name: "batch"}, Column{Name: "grad_accum"}, Column{Name: "seq"})
	for i := range t.Rows {
		t.Rows[i] = append(t.Rows[i], Count(o.Model.Batch), Count(o.Model.GradAccum), Count(o.Model.Seq))
	}
	return t
}

func planLine(o *study.Optimization) Headline {
	h := Headline{Word: "PEAK", Text: o.Estimate.Peak.TensorBytes.Both()}
	if o.Estimate.Verdict != nil {
		h = verdictLine(o.Estimate, o.BudgetBytes)
	}
	switch o.Objective {
	case study.Throughput, study.MaxBatch:
		h.Text += fmt.Sprintf("; micro batch %d", o.Model.Batch)
	case study.MaxSeq:
		h.Text += fmt.Sprintf("; sequence length %s", unit.Grouped(int64(o.Model.Seq)))
	}
	extra := ""
	if o.Estimate.Time != nil {
		extra = unit.Percent(100*o.Estimate.Time.RecomputeOverhead) + " extra compute; "
	}
	h.Text += "; " + extra + study.PlanWords(&o.Plan.Plan, o.Model.Layers)
	if o.RestrictionPrice != nil {
		h.Text += "; " + restrictionWords(*o.RestrictionPrice)
	}
	return h
}

func reserveFact(o *study.Optimization) Fact {
	var sum unit.Bytes
	for _, it := range o.Reserve {
		sum += it.Bytes
	}
	return Fact{"reserve", fmt.Sprintf("%s beside the tensors, which may take %s", sum.Both(), o.TensorBudgetBytes.Both())}
}

// targetFact is the target and its cost in one line.
func targetFact(o *study.Optimization) Fact {
	return Fact{"target", fmt.Sprintf("%s: %s; %s", o.For.Title, o.Shape, restrictionWords(*o.RestrictionPrice))}
}

// restrictionWords is the cost of a restriction: "+3.2 % step time against the unrestricted plan".
func restrictionWords(price float64) string {
	switch {
	case price == 0:
		return "as fast as the unrestricted plan"
	case price < 0: // the unrestricted search is of one class, and a target may run others
		return fmt.Sprintf("%s less step time than the plan without a target, which is of another class", unit.Percent(-100*price))
	}
	return fmt.Sprintf("+%s step time against the unrestricted plan", unit.Percent(100*price))
}

// layers is the plan by run of layers, with the cost of the option if the menu has it.
func layers(o *study.Optimization) Table {
	t := planTable(&o.Plan.Plan, o.Model.Layers, "  ")
	if len(o.Menu) == 0 {
		return t
	}
	t.Columns = append(t.Columns, Column{Name: "kept a layer"}, Column{Name: "extra time a layer"})
	prices := map[string]study.MenuItem{}
	for _, m := range o.Menu {
		prices[m.Option] = m
	}
	for i, r := range t.Rows {
		var kept, extra any
		if m, ok := prices[r[2].(string)]; ok {
			kept, extra = m.KeptBytes, unit.Duration(m.TimeNanoseconds)
		}
		t.Rows[i] = append(r, kept, extra)
	}
	return t
}

// planTable is a plan by run of layers; the contents of a segment are below it, indented.
func planTable(p *plan.Plan, layers int, indent string) Table {
	t := Table{Title: "the plan", Columns: []Column{{Name: "layers"}, {Name: "count"}, {Name: "option"}, {Name: "what is done"}}}
	for _, r := range study.Tree(p, layers) {
		span := fmt.Sprintf("%d-%d", r.First, r.Last)
		if r.First == r.Last {
			span = fmt.Sprint(r.First)
		}
		in := strings.Repeat(indent, r.Depth)
		t.Rows = append(t.Rows, Row{in + span, Count(r.Last - r.First + 1), r.Option, in + r.Words})
	}
	return t
}

// alternatives are the plan and the named strategies side by side.
func alternatives(e *study.Estimation) Table {
	t := Table{
		Title:   "alternatives",
		Columns: []Column{{Name: "strategy"}, {Name: "peak"}, {Name: "extra compute"}, {Name: "tokens/s"}, {Name: "verdict"}, {Name: "where the peak is"}},
	}
	for i := range e.Estimates {
		en := &e.Estimates[i]
		var extra, rate any
		if en.Time != nil {
			extra, rate = Percent(100*en.Time.RecomputeOverhead), Rate(en.Time.TokensPerSecond)
		}
		verdict := ""
		if en.Verdict != nil {
			verdict = string(*en.Verdict)
		}
		t.Rows = append(t.Rows, Row{en.Strategy, en.Peak.TensorBytes, extra, rate, verdict, en.Simulation.Where()})
	}
	return t
}

// menu lists the ways to treat one layer that the plan uses, and the two ends.
func menu(o *study.Optimization) Table {
	t := Table{
		Title:   "options of a layer in the middle",
		Columns: []Column{{Name: "option"}, {Name: "what is done"}, {Name: "kept"}, {Name: "needed in backward"}, {Name: "extra time"}},
	}
	used := []string{plan.Keep.Name, plan.Full.Name}
	for _, r := range study.Tree(&o.Plan.Plan, o.Model.Layers) {
		used = append(used, r.Option)
	}
	for _, m := range o.Menu {
		if slices.Contains(used, m.Option) {
			t.Rows = append(t.Rows, Row{m.Option, m.Words, m.KeptBytes, m.BackwardBytes, unit.Duration(m.TimeNanoseconds)})
		}
	}
	if n := len(o.Menu) - len(t.Rows); n > 0 {
		t.Notes = []string{fmt.Sprintf("%d more were considered; --format json lists them", n)}
	}
	return t
}

// largest sets the strategies side by side.
func largest(o *study.Optimization) Table {
	t := Table{
		Title:   "the largest micro batch within the budget",
		Columns: []Column{{Name: "strategy"}, {Name: "micro batch"}, {Name: "peak"}, {Name: "extra compute"}, {Name: "tokens/s"}},
	}
	size := func(l *study.Largest) int { return l.Batch }
	if o.Objective == study.MaxSeq {
		t.Title = fmt.Sprintf("the longest sequence within the budget, in steps of %d tokens", study.SeqStep)
		t.Columns[1].Name = "tokens"
		size = func(l *study.Largest) int { return l.Seq }
	}
	for i := range o.Largest {
		l := &o.Largest[i]
		if size(l) == 0 {
			t.Rows = append(t.Rows, Row{l.Strategy, nil, nil, nil, nil})
			t.Notes = append(t.Notes, l.Strategy+" fits with none")
			continue
		}
		r := Row{l.Strategy, Count(size(l)), l.PeakBytes, nil, nil}
		if l.RecomputeOverhead != nil {
			r[3], r[4] = Percent(100**l.RecomputeOverhead), Rate(l.TokensPerSecond)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// batches sets the micro batches side by side.
func batches(o *study.Optimization) Table {
	t := Table{
		Title:   "micro batches",
		Columns: []Column{{Name: "batch"}, {Name: "accumulated"}, {Name: "peak"}, {Name: "tokens/s"}, {Name: "without recompute"}, {Name: "fastest plan"}},
	}
	for _, b := range o.Batches {
		r := Row{Count(b.Batch), Count(b.GradAccum), nil, nil, Rate(b.IdealPerSecond), "does not fit"}
		if b.TokensPerSecond > 0 {
			r[2], r[3], r[5] = b.PeakBytes, Rate(b.TokensPerSecond), b.Words
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}
