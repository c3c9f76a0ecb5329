package report

import (
	"fmt"
	"strings"

	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// Estimation lays out the answer to estimate.
func Estimation(e *study.Estimation) *Document {
	d := &Document{Headline: estimateLine(e), Facts: stepFacts(&e.Model, e.BudgetBytes, e.GPU), Data: e, Rows: entryRows(e.Estimates), Notes: notes(e.Warnings)}
	d.Tables = append(d.Tables, terms(e))
	if len(e.Estimates) > 1 || e.Estimates[0].Time != nil {
		d.Tables = append(d.Tables, strategies(e))
	}
	if len(e.Hints) > 0 {
		d.Tables = append(d.Tables, hints(e, e.Hints))
	}
	if e.Explanation != nil {
		d.Tables = append(d.Tables, explanation(e.Explanation)...)
	}
	return d
}

// EstimationRows lays out the estimates alone, one a line, for CSV.
func EstimationRows(e *study.Estimation) *Document { return &Document{Rows: entryRows(e.Estimates)} }

// notes are warnings below the tables.
func notes(warnings []string) []string {
	var out []string
	for _, w := range warnings {
		out = append(out, "note: "+w)
	}
	return out
}

func estimateLine(e *study.Estimation) Headline {
	en := e.Best()
	if en.Verdict == nil {
		h := Headline{Word: "PEAK", Text: fmt.Sprintf("%s with %s", en.Peak.TensorBytes.Both(), en.Strategy)}
		if l := &e.Estimates[study.Lowest(e.Estimates)]; l.Peak.TensorBytes < en.Peak.TensorBytes {
			h.Text += fmt.Sprintf("; lowest %s with %s", l.Peak.TensorBytes.Both(), l.Strategy)
		}
		return h
	}
	h := verdictLine(en, e.BudgetBytes)
	h.Text += "; with " + en.Strategy
	if *en.Verdict == study.OOM && len(e.Estimates) > 1 {
		h.Text += ", the leanest of these"
	}
	return h
}

// verdictLine says whether an estimate fits, and by how much.
func verdictLine(en *study.Entry, device unit.Bytes) Headline {
	text := fmt.Sprintf("peak %s of %s", en.Peak.TensorBytes.Both(), device.Decimal())
	return fitLine(*en.Verdict, text, en.Need.MarginBytes, en.Need.ReserveBytes)
}

// fitLine is a verdict in words. text holds the peak and the budget.
func fitLine(v study.Verdict, text string, margin, kept unit.Bytes) Headline {
	reserve := kept.Decimal()
	switch {
	case v == study.Fits:
		return Headline{"FITS", Good, fmt.Sprintf("%s, margin %s after a reserve of %s", text, margin.Decimal(), reserve)}
	case v == study.Tight && margin >= 0:
		return Headline{"TIGHT", Doubtful, fmt.Sprintf("%s, margin %s after a reserve of %s: verify it on the device", text, margin.Decimal(), reserve)}
	case v == study.Tight:
		return Headline{"TIGHT", Doubtful, fmt.Sprintf("%s, %s short of a full reserve of %s: verify it on the device", text, (-margin).Decimal(), reserve)}
	}
	return Headline{"DOES NOT FIT", Bad, fmt.Sprintf("%s, %s too much after a reserve of %s", text, (-margin).Decimal(), reserve)}
}

// stepFacts are the model, the budget and the card.
func stepFacts(m *study.Model, budget unit.Bytes, c study.Card) []Fact {
	facts := []Fact{{"model", modelLine(m)}}
	if budget > 0 {
		facts = append(facts, Fact{"budget", budget.Echo()})
	}
	card := c.Name
	if c.Assumed {
		card = fmt.Sprintf("times are for %s: give --gpu", c.Name)
	}
	return append(facts, Fact{"gpu", card})
}

// modelLine is the model in one line.
func modelLine(m *study.Model) string {
	trained := ""
	if m.TrainableParameters != m.Parameters {
		trained = fmt.Sprintf(" (%s trained)", unit.Grouped(m.TrainableParameters))
	}
	accum := ""
	if m.GradAccum > 1 {
		accum = fmt.Sprintf(" × %d accumulated", m.GradAccum)
	}
	lora := ""
	if m.LoRA != "" {
		lora = ", LoRA " + m.LoRA
	}
	decoder := ""
	if m.DecoderSeq > 0 {
		decoder = fmt.Sprintf(" and %d in the decoder", m.DecoderSeq)
	}
	return fmt.Sprintf("%s, %s parameters%s, %d layers, micro batch %d%s, sequence length %d%s, %s, %s attention, %s%s",
		m.Name, unit.Grouped(m.Parameters), trained, m.Layers, m.Batch, accum, m.Seq, decoder, m.Precision, m.Attention, m.Optimizer, lora)
}

// terms is the breakdown of the chosen estimate's peak and, with a budget, of the memory that the device must have.
func terms(e *study.Estimation) Table {
	en := e.Best()
	t := Table{
		Title:   fmt.Sprintf("the peak with %s: %s", en.Strategy, en.Simulation.Where()),
		Columns: []Column{{Name: "term"}, {Name: "bytes"}, {Name: "share"}},
	}
	for _, term := range en.Breakdown() {
		t.Rows = append(t.Rows, Row{string(term.Category), term.Bytes, Percent(study.Share(term.Bytes, en.Peak.TensorBytes))})
	}
	t.Rows = append(t.Rows, Row{"tensors at the peak", en.Peak.TensorBytes, Percent(100)})
	if en.Need != nil {
		for _, it := range en.Need.Items {
			t.Rows = append(t.Rows, Row{"+ " + it.Name, it.Bytes, nil})
		}
		t.Rows = append(t.Rows, Row{"the device must hold", en.Need.Bytes, nil})
	}
	t.Notes = []string{phaseLine(en)}
	return t
}

// phaseLine gives the peak of each phase.
func phaseLine(en *study.Entry) string {
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

// strategies sets the estimates side by side; savings are relative to the first.
func strategies(e *study.Estimation) Table {
	t := Table{Columns: []Column{{Name: "strategy"}, {Name: "peak"}}}
	several := len(e.Estimates) > 1
	if several {
		t.Columns = append(t.Columns, Column{Name: "saves vs " + e.Estimates[0].Strategy})
	}
	t.Columns = append(t.Columns, Column{Name: "extra compute"}, Column{Name: "tokens/s"})
	if e.BudgetBytes > 0 {
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
		t.Rows = append(t.Rows, append(r, en.Simulation.Where()))
	}
	return t
}

// hints are simulated changes to the step of an estimation.
func hints(e *study.Estimation, list []study.Hint) Table {
	title := "to lower the peak"
	if e.OOM() {
		title = "to make it fit"
	}
	t := Table{
		Title:   fmt.Sprintf("%s with %s (simulated)", title, e.Best().Strategy),
		Columns: []Column{{Name: "change"}, {Name: "flags"}, {Name: "peak"}, {Name: "tokens/s"}},
	}
	verdicts := e.BudgetBytes > 0
	if verdicts {
		t.Columns = append(t.Columns, Column{Name: "verdict"})
	}
	for _, h := range list {
		r := Row{h.Change, h.Flags, h.PeakBytes, Rate(h.TokensPerSecond)}
		if verdicts {
			r = append(r, string(*h.Verdict))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// entryRows is one line an estimate, for CSV.
func entryRows(entries []study.Entry) Table {
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

// explanation is an explanation as tables.
func explanation(x *study.Explanation) []Table {
	assumptions := Table{Title: "assumptions", Columns: []Column{{Name: "assumption"}, {Name: "adds"}, {Name: "how"}}}
	for _, a := range x.Assumptions {
		var bytes any
		if a.Bytes != nil {
			bytes = *a.Bytes
		}
		assumptions.Rows = append(assumptions.Rows, Row{a.Text, bytes, a.Basis})
	}
	alive := Table{
		Title:   "alive at the peak with " + x.Strategy,
		Columns: []Column{{Name: "category"}, {Name: "tensor"}, {Name: "block"}, {Name: "count"}, {Name: "each"}, {Name: "bytes"}},
	}
	for _, o := range x.Alive {
		alive.Rows = append(alive.Rows, Row{string(o.Category), o.What, o.Block, Count(o.Count), o.EachBytes, o.Bytes})
	}
	reserve := Table{Title: "reserve", Columns: []Column{{Name: "item"}, {Name: "bytes"}, {Name: "shows in"}, {Name: "reason"}, {Name: "source"}}}
	for _, it := range x.Reserve {
		reserve.Rows = append(reserve.Rows, Row{it.Name, it.Bytes, string(it.Level), it.Reason, it.Source})
	}
	return []Table{assumptions, alive, reserve, {Title: "remarks", Notes: x.Remarks}}
}
