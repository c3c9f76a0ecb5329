package report

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// Document is the optimization for readers.
func (o *Optimization) Document() *Document {
	e := o.estimation
	d := &Document{Data: o, Facts: e.facts(), Rows: o.rows()}
	if o.Plan == nil {
		d.Headline = Headline{"DOES NOT FIT", Bad, o.verdict}
		d.Tables = append(d.Tables, e.terms(), o.alternatives())
	} else {
		d.Headline = o.headline()
		if o.TensorBudgetBytes > 0 {
			d.Facts = append(d.Facts, o.reserveFact())
		}
		if o.RestrictionPrice != nil {
			d.Facts = append(d.Facts, o.targetFact())
		}
		d.Tables = append(d.Tables, o.layers())
		if len(o.Largest) > 0 {
			d.Tables = append(d.Tables, o.largestTable())
		}
		if len(o.Batches) > 0 {
			d.Tables = append(d.Tables, o.batches())
		}
		d.Tables = append(d.Tables, o.alternatives())
		if len(o.Menu) > 0 {
			d.Tables = append(d.Tables, o.menu())
		}
		d.Tables = append(d.Tables, Table{Title: "why", Notes: o.Explanation})
	}
	if len(o.Hints) > 0 {
		e.Hints = o.Hints
		d.Tables = append(d.Tables, e.hintTable())
	}
	for _, w := range o.Warnings {
		d.Notes = append(d.Notes, "note: "+w)
	}
	return d
}

// rows are the estimates with the sizes of the step, which an objective may have chosen.
func (o *Optimization) rows() Table {
	t := entryRows(o.estimation.Estimates)
	t.Columns = append(t.Columns, Column{Name: "batch"}, Column{Name: "grad_accum"}, Column{Name: "seq"})
	for i := range t.Rows {
		t.Rows[i] = append(t.Rows[i], Count(o.Model.Batch), Count(o.Model.GradAccum), Count(o.Model.Seq))
	}
	return t
}

func (o *Optimization) headline() Headline {
	h := Headline{Word: "PEAK", Text: o.Estimate.Peak.TensorBytes.Both()}
	if o.Estimate.Verdict != nil {
		h = verdictLine(o.Estimate, o.BudgetBytes)
	}
	switch o.Objective {
	case Throughput, MaxBatch:
		h.Text += fmt.Sprintf("; micro batch %d", o.Model.Batch)
	case MaxSeq:
		h.Text += fmt.Sprintf("; sequence length %s", grouped(int64(o.Model.Seq)))
	}
	extra := ""
	if o.Estimate.Time != nil {
		extra = percent(100*o.Estimate.Time.RecomputeOverhead) + " extra compute; "
	}
	h.Text += "; " + extra + planWords(&o.Plan.Plan, o.Model.Layers)
	if o.RestrictionPrice != nil {
		h.Text += "; " + restrictionWords(*o.RestrictionPrice)
	}
	return h
}

func (o *Optimization) reserveFact() Fact {
	var sum unit.Bytes
	for _, it := range o.Reserve {
		sum += it.Bytes
	}
	return Fact{"reserve", fmt.Sprintf("%s beside the tensors, which may take %s", sum.Both(), o.TensorBudgetBytes.Both())}
}

// layers is the plan per run of layers, with the price of the option where the menu has it.
func (o *Optimization) layers() Table {
	t := planTable(&o.Plan.Plan, o.Model.Layers, "  ")
	if len(o.Menu) == 0 {
		return t
	}
	t.Columns = append(t.Columns, Column{Name: "kept a layer"}, Column{Name: "extra time a layer"})
	prices := map[string]MenuItem{}
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

// planTable is a plan per run of layers, with what is inside a segment below it, indented.
func planTable(p *plan.Plan, layers int, indent string) Table {
	t := Table{Title: "the plan", Columns: []Column{{Name: "layers"}, {Name: "count"}, {Name: "option"}, {Name: "what is done"}}}
	for _, r := range tree(p, layers) {
		span := fmt.Sprintf("%d-%d", r.first, r.last)
		if r.first == r.last {
			span = fmt.Sprint(r.first)
		}
		in := strings.Repeat(indent, r.depth)
		t.Rows = append(t.Rows, Row{in + span, Count(r.last - r.first + 1), r.option, in + r.words})
	}
	return t
}

// alternatives are the plan and the named strategies side by side.
func (o *Optimization) alternatives() Table {
	t := Table{
		Title:   "alternatives",
		Columns: []Column{{Name: "strategy"}, {Name: "peak"}, {Name: "extra compute"}, {Name: "tokens/s"}, {Name: "verdict"}, {Name: "where the peak is"}},
	}
	e := o.estimation
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
		t.Rows = append(t.Rows, Row{en.Strategy, en.Peak.TensorBytes, extra, rate, verdict, where(e.prices[i].Timeline)})
	}
	return t
}

// menu lists the ways to treat one layer that the plan uses, and the two ends.
func (o *Optimization) menu() Table {
	t := Table{
		Title:   "options of a layer in the middle",
		Columns: []Column{{Name: "option"}, {Name: "what is done"}, {Name: "kept"}, {Name: "needed in backward"}, {Name: "extra time"}},
	}
	used := []string{plan.Keep.Name, plan.Full.Name}
	for _, r := range tree(&o.Plan.Plan, o.Model.Layers) {
		used = append(used, r.option)
	}
	for _, m := range o.Menu {
		if slices.Contains(used, m.Option) {
			t.Rows = append(t.Rows, Row{m.Option, m.Words, m.KeptBytes, m.BackwardBytes, unit.Duration(m.TimeNanoseconds)})
		}
	}
	if n := len(o.Menu) - len(t.Rows); n > 0 {
		t.Notes = []string{fmt.Sprintf("%d more were weighed; --format json lists them", n)}
	}
	return t
}

// Show is a plan file for readers.
func Show(f *plan.File) *Document {
	layers := 0
	for _, n := range f.Nodes {
		layers = max(layers, n.Last+1)
	}
	d := &Document{Data: f}
	made := Fact{"model", "any: the file names none"}
	if f.Model != nil {
		made.Text = fmt.Sprintf("%s, fingerprint %s", f.Model.Name, f.Model.Fingerprint)
	}
	strategy := f.Strategy
	if f.Class != "" {
		strategy += ", among " + f.Class + " plans"
	}
	d.Facts = []Fact{made, {"strategy", strategy}}
	if f.Budget > 0 {
		d.Facts = append(d.Facts, Fact{"budget", f.Budget.Echo()})
	}
	if p := f.Predicted; p != nil {
		text := fmt.Sprintf("peak %s in tensors, in the %s", p.Peak.Both(), p.Phase)
		if p.Block != "" {
			text += " of " + p.Block
		}
		if p.StepTime > 0 {
			text += fmt.Sprintf("; step %s on %s, %s extra compute", unit.Duration(p.StepTime), p.GPU, percent(100*p.Overhead))
		}
		d.Facts = append(d.Facts, Fact{"predicted", text})
	}
	if f.Tool != "" {
		d.Facts = append(d.Facts, Fact{"written by", "ckptplan " + f.Tool})
	}
	if f.Spec != nil {
		layers = plan.LayersOf(f.Spec)
	}
	t := planTable(&f.Plan, layers, "  ")
	if f.Spec == nil {
		t.Notes = []string{"layers that no line names keep everything"}
	}
	d.Tables, d.Rows = []Table{t}, planTable(&f.Plan, layers, "")
	return d
}
