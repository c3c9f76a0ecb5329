package study

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// TestChooseHead: where the logits set the peak, an allowed head makes a plan possible that nothing else does; where
// everything fits, the head stays as it is.
func TestChooseHead(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.LoadPreset("llama-3.2-1b")
	if err != nil {
		t.Fatal(err)
	}
	s.B, s.S = 8, 2048
	for _, c := range []struct {
		budget  unit.Bytes
		allowed []string
		chunks  bool
		fits    bool
	}{
		{24e9, nil, false, false},
		{24e9, []string{DropLogits}, false, false},
		{24e9, HeadChoices, true, true},
		{80e9, HeadChoices, false, true},
	} {
		study, err := New(s, Request{Request: strategy.Request{Budget: c.budget, Reserve: -1, Sheet: sheet}, Allow: c.allowed})
		if err != nil {
			t.Fatal(err)
		}
		h, err := study.fastestHead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Spec.Train.LossChunks > 1; got != c.chunks {
			t.Errorf("%v with %v: %d parts", c.budget, c.allowed, h.Spec.Train.LossChunks)
		}
		if _, err := h.search(t.Context()); (err == nil) != c.fits {
			t.Errorf("%v with %v: %v", c.budget, c.allowed, err)
		}
	}
}
