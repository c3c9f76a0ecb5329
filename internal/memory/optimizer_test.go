package memory

import (
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/optimizer"
	"ckptplan/internal/plan"
)

// A row that is not in the table is run as it says. Lion, for one, keeps a tensor like each
// parameter and no counter; its update makes one more, beside that of the parameter before, or a list of all.
func TestOptimizerIsARow(t *testing.T) {
	spec, err := model.LoadPreset("gpt2")
	if err != nil {
		t.Fatal(err)
	}
	spec.L, spec.S, spec.B = 2, 16, 1
	g, err := model.Build(spec, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all, most int64
	order := g.Step.Registered
	for k, i := range order {
		all += g.Params[i].Bytes
		pair := g.Params[i].Bytes
		if k > 0 {
			pair += g.Params[order[k-1]].Bytes
		}
		most = max(most, pair)
	}
	for _, c := range []struct {
		row              optimizer.Row
		state, temporary int64
	}{
		{optimizer.Row{Name: "lion", Rule: "lion", State: []string{"aten.zeros_like"}, OneByOne: []string{"aten.sign"}, Passes: 9}, all, most},
		{optimizer.Row{Name: "lion-list", Rule: "lion", State: []string{"aten.zeros_like"}, AtOnce: []string{"aten._foreach_sign"}, Passes: 9}, all, all},
		{optimizer.Row{Name: "counted", Rule: "x", State: []string{"aten.zeros_like", "aten.zeros_like", "aten.zeros_like"}, Counter: 4, Passes: 1}, 3*all + 4*int64(len(g.Params)), 0},
	} {
		s, err := Lower(Compile(g), &plan.Plan{})
		if err != nil {
			t.Fatal(err)
		}
		s.Optimizer = &c.row
		tl, err := Simulate(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if int64(tl.Optimizer) != c.state {
			t.Errorf("%s keeps %d bytes, want %d", c.row.Name, tl.Optimizer, c.state)
		}
		if got, want := tl.Second.Peak[Optimizer].Bytes, tl.Second.AfterBackward+c.temporary; got != want {
			t.Errorf("%s: its step peaks at %d, want %d", c.row.Name, got, want)
		}
	}
	spec.Train.Optimizer = "lion"
	if g, err = model.Build(spec, build.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Lower(Compile(g), &plan.Plan{}); err == nil {
		t.Error("an optimizer that is not in the table is simulated")
	}
}
