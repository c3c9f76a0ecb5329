package main

import "testing"

func TestProgressText(t *testing.T) {
	w := progress(nil, "running full on cpu")
	defer w.stop()
	if got, want := w.text(3, 79), "running full on cpu, 3 s"; got != want {
		t.Errorf("%q", got)
	}
	w.at("step 2 of 5 (memory)")
	for width, want := range map[int]string{
		79: "running full on cpu: step 2 of 5 (memory), 12 s",
		30: "running full on cpu: st…, 12 s",
		3:  "…, 12 s",
	} {
		if got := w.text(12, width); got != want {
			t.Errorf("in %d columns: %q", width, got)
		}
	}
}
