package report

import (
	"fmt"
	"strings"

	"ckptplan/internal/unit"
)

// Document is the estimation for readers.
func (e *Estimation) Document() *Document {
	if e.rowsOnly {
		return &Document{Rows: e.rows()}
	}
	d := &Document{Headline: e.headline(), Facts: e.facts(), Data: e, Rows: e.rows()}
	d.Tables = append(d.Tables, e.terms())
	if len(e.Estimates) > 1 || e.Estimates[0].Time != nil {
		d.Tables = append(d.Tables, e.strategies())
	}
	if len(e.Hints) > 0 {
		d.Tables = append(d.Tables, e.hintTable())
	}
	if e.Explanation != nil {
		d.Tables = append(d.Tables, e.Explanation.tables()...)
	}
	for _, w := range e.Warnings {
		d.Notes = append(d.Notes, "note: "+w)
	}
	return d
}

func (e *Estimation) headline() Headline {
	en := &e.Estimates[e.chosen]
	if en.Verdict == nil {
		h := Headline{Word: "PEAK", Text: fmt.Sprintf("%s with %s", en.Peak.TensorBytes.Both(), en.Strategy)}
		if l := &e.Estimates[lowest(e.Estimates)]; l.Peak.TensorBytes < en.Peak.TensorBytes {
			h.Text += fmt.Sprintf("; lowest %s with %s", l.Peak.TensorBytes.Both(), l.Strategy)
		}
		return h
	}
	h := verdictLine(en, e.budget.Device)
	h.Text += "; with " + en.Strategy
	if *en.Verdict == OOM && len(e.Estimates) > 1 {
		h.Text += ", the leanest of these"
	}
	return h
}

// verdictLine says whether an estimate fits, and by how much.
func verdictLine(en *Entry, device unit.Bytes) Headline {
	text := fmt.Sprintf("peak %s of %s", en.Peak.TensorBytes.Both(), device.Decimal())
	return fitLine(*en.Verdict, text, en.Need.MarginBytes, en.Need.ReserveBytes)
}

// fitLine is a verdict in words. text holds the peak and the budget.
func fitLine(v Verdict, text string, margin, kept unit.Bytes) Headline {
	reserve := kept.Decimal()
	switch {
	case v == Fits:
		return Headline{"FITS", Good, fmt.Sprintf("%s, margin %s after a reserve of %s", text, margin.Decimal(), reserve)}
	case v == Tight && margin >= 0:
		return Headline{"TIGHT", Doubtful, fmt.Sprintf("%s, margin %s after a reserve of %s: verify it on the device", text, margin.Decimal(), reserve)}
	case v == Tight:
		return Headline{"TIGHT", Doubtful, fmt.Sprintf("%s, %s short of a full reserve of %s: verify it on the device", text, (-margin).Decimal(), reserve)}
	}
	return Headline{"DOES NOT FIT", Bad, fmt.Sprintf("%s, %s too much after a reserve of %s", text, (-margin).Decimal(), reserve)}
}

func (e *Estimation) facts() []Fact {
	facts := []Fact{{"model", e.Model.line()}}
	if e.BudgetBytes > 0 {
		facts = append(facts, Fact{"budget", e.BudgetBytes.Echo()})
	}
	card := e.GPU.Name
	if e.GPU.Assumed {
		card = fmt.Sprintf("times are for %s: give --gpu", e.GPU.Name)
	}
	return append(facts, Fact{"gpu", card})
}

// line is the model in one line.
func (m *Model) line() string {
	trained := ""
	if m.TrainableParameters != m.Parameters {
		trained = fmt.Sprintf(" (%s trained)", grouped(m.TrainableParameters))
	}
	accum := ""
	if m.GradAccum > 1 {
		accum = fmt.Sprintf(" × %d accumulated", m.GradAccum)
	}
	lora := ""
	if m.LoRA != "" {
		lora = ", LoRA " + m.LoRA
	}
	return fmt.Sprintf("%s, %s parameters%s, %d layers, micro batch %d%s, sequence length %d, %s, %s attention, %s%s",
		m.Name, grouped(m.Parameters), trained, m.Layers, m.Batch, accum, m.Seq, m.Precision, m.Attention, m.Optimizer, lora)
}

// terms is the breakdown of the chosen estimate's peak, and with a budget of what the device must hold.
func (e *Estimation) terms() Table {
	en, p := &e.Estimates[e.chosen], e.prices[e.chosen]
	t := Table{
		Title:   fmt.Sprintf("the peak with %s: %s", en.Strategy, where(p.Timeline)),
		Columns: []Column{{Name: "term"}, {Name: "bytes"}, {Name: "share"}},
	}
	for _, term := range en.breakdown() {
		t.Rows = append(t.Rows, Row{string(term.Category), term.Bytes, Percent(share(term.Bytes, en.Peak.TensorBytes))})
	}
	t.Rows = append(t.Rows, Row{"tensors at the peak", en.Peak.TensorBytes, Percent(100)})
	if en.Need != nil {
		for _, it := range e.budget.Items(en.Peak.TensorBytes) {
			t.Rows = append(t.Rows, Row{"+ " + it.Name, it.Bytes, nil})
		}
		t.Rows = append(t.Rows, Row{"the device must hold", en.Need.Bytes, nil})
	}
	t.Notes = []string{en.phaseLine()}
	return t
}

// phaseLine gives the peak of each phase.
func (en *Entry) phaseLine() string {
	parts := []string{
		"forward " + en.Phases.Forward.TensorBytes.String(), "before backward " + en.BeforeBackward.TensorBytes.String(),
		"backward " + en.Phases.Backward.TensorBytes.String(),
	}
	if en.Phases.Optimizer != nil {
		parts = append(parts, "optimizer "+en.Phases.Optimizer.TensorBytes.String())
	}
	if en.HostBytes > 0 {
		parts = append(parts, "pinned host memory "+en.HostBytes.String())
	}
	return "phases: " + strings.Join(parts, ", ")
}

// strategies sets the estimates side by side; savings are against the first.
func (e *Estimation) strategies() Table {
	t := Table{Columns: []Column{{Name: "strategy"}, {Name: "peak"}}}
	several := len(e.Estimates) > 1
	if several {
		t.Columns = append(t.Columns, Column{Name: "saves vs " + e.Estimates[0].Strategy})
	}
	t.Columns = append(t.Columns, Column{Name: "extra compute"}, Column{Name: "tokens/s"})
	if e.budget.Device > 0 {
		t.Columns = append(t.Columns, Column{Name: "verdict"})
	}
	t.Columns = append(t.Columns, Column{Name: "where the peak is"})
	for i := range e.Estimates {
		en := &e.Estimates[i]
		r := Row{en.Strategy, en.Peak.TensorBytes}
		if several {
			var saves any
			if i > 0 {
				saves = e.Estimates[0].Peak.TensorBytes - en.Peak.TensorBytes
			}
			r = append(r, saves)
		}
		var extra, rate any
		if en.Time != nil {
			extra, rate = Percent(100*en.Time.RecomputeOverhead), Rate(en.Time.TokensPerSecond)
		}
		r = append(r, extra, rate)
		if en.Verdict != nil {
			r = append(r, string(*en.Verdict))
		}
		t.Rows = append(t.Rows, append(r, where(e.prices[i].Timeline)))
	}
	return t
}

func (e *Estimation) hintTable() Table {
	title := "to lower the peak"
	if e.oom() {
		title = "to make it fit"
	}
	t := Table{
		Title:   fmt.Sprintf("%s with %s (simulated)", title, e.Estimates[e.chosen].Strategy),
		Columns: []Column{{Name: "change"}, {Name: "flags"}, {Name: "peak"}, {Name: "tokens/s"}},
	}
	verdicts := e.budget.Device > 0
	if verdicts {
		t.Columns = append(t.Columns, Column{Name: "verdict"})
	}
	for _, h := range e.Hints {
		r := Row{h.Change, h.Flags, h.PeakBytes, Rate(h.TokensPerSecond)}
		if verdicts {
			r = append(r, string(*h.Verdict))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// rows is one line an estimate, for CSV.
func (e *Estimation) rows() Table {
	return entryRows(e.Estimates)
}

func entryRows(entries []Entry) Table {
	t := Table{Columns: []Column{
		{Name: "strategy"},
		{Name: "verdict"},
		{Name: "peak_tensor_bytes"},
		{Name: "peak_phase"},
		{Name: "peak_block"},
		{Name: "peak_op"},
		{Name: "forward_tensor_bytes"},
		{Name: "before_backward_tensor_bytes"},
		{Name: "backward_tensor_bytes"},
		{Name: "optimizer_tensor_bytes"},
		{Name: "parameter_bytes"},
		{Name: "gradient_bytes"},
		{Name: "optimizer_bytes"},
		{Name: "need_bytes"},
		{Name: "step_ns"},
		{Name: "tokens_per_second"},
		{Name: "recompute_overhead"},
	}}
	for i := range entries {
		en := &entries[i]
		var verdict, need, optimizer, step, rate, extra any
		if en.Verdict != nil {
			verdict, need = string(*en.Verdict), en.Need.Bytes
		}
		if en.Phases.Optimizer != nil {
			optimizer = en.Phases.Optimizer.TensorBytes
		}
		if en.Time != nil {
			step, rate, extra = Count(en.Time.StepNanoseconds), Rate(en.Time.TokensPerSecond), Percent(100*en.Time.RecomputeOverhead)
		}
		t.Rows = append(t.Rows, Row{
			en.Strategy, verdict, en.Peak.TensorBytes, en.Peak.Phase, en.Peak.Block, en.Peak.Op,
			en.Phases.Forward.TensorBytes, en.BeforeBackward.TensorBytes, en.Phases.Backward.TensorBytes, optimizer,
			en.Static.ParameterBytes, en.Static.GradientBytes, en.Static.OptimizerBytes, need, step, rate, extra,
		})
	}
	return t
}
