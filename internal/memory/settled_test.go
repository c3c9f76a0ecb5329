package memory

import (
	"testing"

	"ckptplan/internal/groundtruth"
)

// TestSecondStep: a step walked from the state that the first step leaves is the second of two steps walked in a row.
func TestSecondStep(t *testing.T) {
	for _, c := range groundtruth.Load(t, groundtruth.Given) {
		sch, err := schedule(c)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := Simulate(sch, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(sch)
		var first, second StepResult
		m.construct()
		m.res = &first
		m.step()
		m.res = &second
		m.step()
		if first != tl.FirstStep() || second != tl.Second {
			t.Errorf("%s: two steps in a row\n%+v\n%+v\nwalked apart\n%+v\n%+v", c.ID, first, second, tl.FirstStep(), tl.Second)
		}
	}
}
