package report

import (
	"fmt"

	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// Show lays out a plan file.
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
			text += fmt.Sprintf("; step %s on %s, %s extra compute", unit.Duration(p.StepTime), p.GPU, unit.Percent(100*p.Overhead))
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
