package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// Verification lays out prediction and measurement side by side.
func Verification(v *study.Verification) *Document {
	d := &Document{Headline: verifyLine(v), Facts: verifyFacts(v), Data: v, Rows: differences(v), Notes: notes(v.Notes)}
	if v.Measured != nil {
		d.Tables = append(d.Tables, phases(v))
		if t, ok := levels(v); ok {
			d.Tables = append(d.Tables, t)
		}
		if v.Measured.Time != nil {
			d.Tables = append(d.Tables, times(v))
		}
	}
	return d
}

// verifyLine is the verdict: on the peak if all is within tolerance, else on the largest difference.
func verifyLine(v *study.Verification) Headline {
	switch {
	case v.OutOfMemory != nil:
		text := "as predicted"
		if v.Verdict == study.Differs {
			text = "against the prediction"
		}
		text += fmt.Sprintf(": the peak with %s is predicted to be %s", v.Predicted.Strategy, precise(v.Predicted.Peak.TensorBytes))
		if v.OutOfMemory.Offered > 0 {
			text += fmt.Sprintf(", the device offers %s", precise(v.OutOfMemory.Offered))
		}
		return Headline{"OUT OF MEMORY", Bad, text}
	case v.Gradients != nil && !v.Gradients.Agree:
		return Headline{"DIFFERS", Bad, "gradients: " + whyDiffer(v.Gradients)}
	}
	at := v.Differences[len(v.Differences)-1] // the peak
	h := Headline{Word: "AGREES", Tone: Good}
	if v.Verdict == study.Differs {
		h = Headline{Word: "DIFFERS", Tone: Bad}
		at = slices.MaxFunc(v.Differences, func(a, b study.Difference) int {
			switch x, y := math.Abs(a.Share), math.Abs(b.Share); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
	}
	h.Text = fmt.Sprintf("%s %s predicted, %s measured (%s, tolerance %s)", at.What, precise(at.Predicted), precise(at.Measured), signed(at.Share), study.Tolerance(v.Tolerance))
	return h
}

// whyDiffer says what is wrong with gradients.
func whyDiffer(g *study.Gradients) string {
	if len(g.Causes) > 0 {
		return strings.Join(g.Causes, "; ")
	}
	return gradientsOff(g)
}

// gradientsOff says how far off gradients are.
func gradientsOff(g *study.Gradients) string {
	if g.Difference == nil {
		return g.Worst + " is missing in one run, or is not a number"
	}
	of := "its norm"
	if g.Worst == "loss" {
		of = "the baseline's"
	}
	return fmt.Sprintf("%s is off by %s of %s", g.Worst, strings.TrimPrefix(signed(*g.Difference), "+"), of)
}

func verifyFacts(v *study.Verification) []Fact {
	facts := []Fact{{"model", modelLine(&v.Model)}, {"plan", v.Predicted.Strategy}}
	engine := v.Engine + " on " + v.Device
	if card, ok := v.Environment["gpu"].(string); ok {
		engine += ", " + card
	}
	facts = append(facts, Fact{"engine", engine}, Fact{"versions", versions(v)})
	if v.OutOfMemory != nil {
		facts = append(facts, Fact{"device", strings.TrimPrefix(v.OutOfMemory.Err.Error(), "device ")})
	}
	if g := v.Gradients; g != nil {
		facts = append(facts, Fact{"gradients", gradientsLine(g)})
	}
	if b := v.Baseline; b != nil {
		predicted, measured := b.Predicted.Peak.TensorBytes, b.Measured.Peak.Tensor
		share := float64(measured-predicted) / float64(measured)
		facts = append(facts, Fact{"baseline", fmt.Sprintf("peak without checkpointing %s predicted, %s measured (%s)", precise(predicted), precise(measured), signed(share))})
	}
	return facts
}

// gradientsLine compares values with the baseline's.
func gradientsLine(g *study.Gradients) string {
	switch {
	case g.Equal:
		return fmt.Sprintf("loss and the gradients of all %d parameters match the baseline bit for bit", g.Parameters)
	case g.Agree:
		return fmt.Sprintf("match the baseline within %s of their norm (%s)", unit.Percent(100*g.Tolerance), gradientsOff(g))
	}
	return "differ from the baseline: " + gradientsOff(g)
}

// versions is the environment in one line, without the card, which the engine's line names.
func versions(v *study.Verification) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(v.Environment)) {
		if k == "gpu" {
			continue
		}
		text := fmt.Sprint(v.Environment[k])
		if f, ok := v.Environment[k].(float64); ok {
			text = strconv.FormatFloat(f, 'f', -1, 64)
			if strings.HasSuffix(k, "_bytes") {
				text = unit.Bytes(f).Decimal()
			}
		}
		parts = append(parts, strings.TrimSuffix(k, "_bytes")+" "+text)
	}
	return strings.Join(parts, ", ")
}

// phases sets prediction and measurement side by side.
func phases(v *study.Verification) Table {
	t := Table{
		Title:   "tensor bytes of a step with optimizer state",
		Columns: []Column{{Name: "phase"}, {Name: "predicted"}, {Name: "measured"}, {Name: "measured is"}, {Name: "tolerance"}, {Name: "verdict"}},
	}
	for _, d := range v.Differences {
		verdict := study.Agrees
		if !d.Within {
			verdict = study.Differs
		}
		t.Rows = append(t.Rows, Row{d.What, d.Predicted, d.Measured, signed(d.Share), "±" + study.Tolerance(v.Tolerance), string(verdict)})
	}
	return t
}

// levels keeps allocated, reserved and device total apart; false if the engine sees none of them.
func levels(v *study.Verification) (Table, bool) {
	p := v.Measured.Peak
	if p.Allocated == 0 && p.Reserved == 0 && p.DeviceTotal == 0 {
		return Table{}, false
	}
	t := Table{Title: "the measured peak in the device's terms", Columns: []Column{{Name: "term"}, {Name: "measured"}, {Name: "what it counts"}}}
	for _, l := range []struct {
		name, what string
		bytes      unit.Bytes
	}{
		{"tensors", "what was asked for, with the workspaces of libraries", p.Tensor},
		{"allocated", "the caching allocator's blocks", p.Allocated},
		{"reserved", "the caching allocator's segments", p.Reserved},
		{"device total", "the driver's count, with the CUDA context", p.DeviceTotal},
	} {
		if l.bytes > 0 {
			t.Rows = append(t.Rows, Row{l.name, l.bytes, l.what})
		}
	}
	if n := v.Measured.Retries; n > 0 {
		t.Notes = []string{fmt.Sprintf("the allocator had to give its cache back %d times: the device is nearly full, and times suffer", n)}
	}
	return t, true
}

// times sets step times side by side. Predictions are for one card: on another device only
// the share that recomputing adds can be compared.
func times(v *study.Verification) Table {
	m := v.Measured.Time
	t := Table{
		Title:   timesTitle(m.Steps),
		Columns: []Column{{Name: ""}, {Name: "predicted for " + v.GPU.Name}, {Name: "measured"}, {Name: "±"}},
	}
	step, rate := predictedStep(v, &v.Predicted)
	t.Rows = append(t.Rows, Row{"step", step, unit.Duration(m.StepNanoseconds), halfWidth(m)})
	if v.Baseline != nil && v.Baseline.Measured.Time != nil {
		b := v.Baseline.Measured.Time
		bare, _ := predictedStep(v, &v.Baseline.Predicted)
		t.Rows = append(t.Rows, Row{"step without checkpointing", bare, unit.Duration(b.StepNanoseconds), halfWidth(b)})
		var extra, half any
		if p := v.Predicted.Time; p != nil {
			extra = Percent(100 * p.RecomputeOverhead)
		}
		if m.OverheadHalfWidth > 0 {
			half = Percent(100 * m.OverheadHalfWidth)
		}
		t.Rows = append(t.Rows, Row{"extra time of the plan", extra, Percent(100 * *m.RecomputeOverhead), half})
	}
	t.Rows = append(t.Rows, Row{"tokens/s", rate, Rate(m.TokensPerSecond), nil})
	if !slices.ContainsFunc(t.Rows, func(r Row) bool { return r[1] != nil }) {
		t.Columns = slices.Delete(t.Columns, 1, 2)
		for i := range t.Rows {
			t.Rows[i] = slices.Delete(t.Rows[i], 1, 2)
		}
	}
	return t
}

func timesTitle(steps int) string {
	if steps == 1 {
		return "time (of one step)"
	}
	return fmt.Sprintf("time (mean of %d steps, ± its 95 %% interval)", steps)
}

// predictedStep is the time and the rate of a predicted step, or nil if the device is not a card.
func predictedStep(v *study.Verification, en *study.Entry) (step, rate any) {
	if en.Time == nil || !v.OnCUDA {
		return nil, nil
	}
	return unit.Duration(en.Time.StepNanoseconds), Rate(en.Time.TokensPerSecond)
}

func halfWidth(t *study.MeasuredTime) any {
	if t.HalfWidth == 0 {
		return nil
	}
	return unit.Duration(t.HalfWidth)
}

// differences is one line an amount, for CSV.
func differences(v *study.Verification) Table {
	t := Table{Columns: []Column{
		{Name: "what"},
		{Name: "predicted_bytes"},
		{Name: "measured_bytes"},
		{Name: "difference"},
		{Name: "within_tolerance"},
	}}
	for _, d := range v.Differences {
		t.Rows = append(t.Rows, Row{d.What, d.Predicted, d.Measured, Percent(100 * d.Share), d.Within})
	}
	return t
}

// precise prints a size with four digits, since compared amounts differ in the last ones.
func precise(b unit.Bytes) string {
	decimal, _, _ := strings.Cut(b.Echo(), " (")
	return decimal
}

// signed prints a share with its sign; "0 %" is exactly that.
func signed(share float64) string {
	v := 100 * share
	switch {
	case v == 0:
		return "0 %"
	case math.Abs(v) < 0.05:
		return fmt.Sprintf("%+.3f %%", v)
	}
	return fmt.Sprintf("%+.1f %%", v)
}
