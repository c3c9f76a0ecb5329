package strategy

import (
	"context"
	"errors"
	"math"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// TestOptimalEqualsExhaustive: on models of two layers, every combination of every option of the whole menu is simulated;
// the flat plan is as fast as the fastest of them that fits, at every budget, and where none fits there is no plan.
func TestOptimalEqualsExhaustive(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset string
		change func(*model.Spec)
	}{
		{"gpt2", func(s *model.Spec) { s.L, s.B, s.S, s.Vocab = 2, 8, 512, 1000 }},
		{"gpt2", func(s *model.Spec) {
			s.L, s.B, s.S, s.Vocab, s.Attention, s.Precision = 2, 4, 256, 1000, "eager", model.AmpBF
		}},
		{"pythia-410m", func(s *model.Spec) { s.L, s.B, s.S, s.Vocab = 2, 8, 512, 1000 }},
		{"t5-base", func(s *model.Spec) { s.L, s.DecoderL, s.B, s.S, s.DecoderS, s.Vocab = 1, 1, 8, 512, 384, 1000 }},
	} {
		t.Run(c.preset, func(t *testing.T) {
			p := program(t, c.preset, c.change)
			options := Options(p.Graph, 1)
			var peaks, times []int64
			low, high := int64(math.MaxInt64), int64(0)
			for i := range options {
				for j := range options {
					tl, err := memory.Judge(p, planOf(options, []int{i, j}), sheet)
					if err != nil {
						continue // parts that share ops
					}
					peaks, times = append(peaks, tl.Peak.Bytes), append(times, tl.Times.Step())
					low, high = min(low, tl.Peak.Bytes), max(high, tl.Peak.Bytes)
				}
			}
			for n := int64(0); n <= 12; n++ {
				budget := low - 1 + (high-low)*n/12
				best := int64(math.MaxInt64)
				for k := range peaks {
					if peaks[k] <= budget {
						best = min(best, times[k])
					}
				}
				res, err := Optimize(context.Background(), p, Request{Budget: unit.Bytes(budget), Reserve: 0, Sheet: sheet, Class: "flat"})
				var no *NoPlanError
				switch {
				case errors.As(err, &no):
					if best != math.MaxInt64 {
						t.Errorf("budget %d: no plan, one of %d ns exists", budget, best)
					}
				case err != nil:
					t.Fatal(err)
				case res.Timeline.Times.Step() != best:
					t.Errorf("budget %d: %d ns, the fastest of all %d plans takes %d", budget, res.Timeline.Times.Step(), len(peaks), best)
				}
			}
			t.Logf("%d plans between %v and %v", len(peaks), unit.Bytes(low), unit.Bytes(high))
		})
	}
}
