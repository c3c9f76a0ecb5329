package memory

import (
	"testing"

	"ckptplan/internal/plan"
)

// TestSecondStep: a step walked from the state that the first step leaves is the second of two steps walked in a row.
func TestSecondStep(t *testing.T) {
	for _, c := range loadCases(t, "../../testdata/ground-truth/cases.json") {
		s, err := c.spec()
		if err != nil {
			t.Fatal(err)
		}
		pl, err := plan.Named(c.Strategy, plan.LayersOf(s))
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPrograms(s, false).Kind(pl.Kind())
		if err != nil {
			t.Fatal(err)
		}
		sch, err := Lower(p, pl)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := Simulate(sch, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(sch)
		var first, second StepResult
		m.res = &first
		m.step()
		m.res, m.event = &second, 0
		m.step()
		if first != tl.FirstStep() || second != tl.Second {
			t.Errorf("%s: two steps in a row\n%+v\n%+v\nwalked apart\n%+v\n%+v", c.ID, first, second, tl.FirstStep(), tl.Second)
		}
	}
}
