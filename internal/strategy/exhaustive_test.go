package strategy

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/strategy/menu"
	"ckptplan/internal/unit"
)

// TestOptimalEqualsExhaustive: on models of one or two layers, every combination of every option of the whole menu is
// simulated; the flat plan is as fast as the fastest of them that fits, at every budget, and where none fits there is no
// plan, and the smallest budget is the lowest peak of them all.
func TestOptimalEqualsExhaustive(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset string
		change func(*spec.Spec)
	}{
		{"gpt2", func(s *spec.Spec) { s.L, s.B, s.S, s.Vocab = 2, 8, 512, 1000 }},
		{"gpt2", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.Attention, s.Precision = 2, 4, 256, 1000, "eager", dtype.AmpBF
		}},
		{"pythia-410m", func(s *spec.Spec) { s.L, s.B, s.S, s.Vocab = 2, 8, 512, 1000 }},
		{"t5-base", func(s *spec.Spec) { s.L, s.DecoderL, s.B, s.S, s.DecoderS, s.Vocab = 1, 1, 8, 512, 384, 1000 }},
		// Forward binds, and holds what the next layer's locals hold, or masks.
		{"falcon-7b", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.H, s.Heads, s.HeadDim, s.FFN = 2, 2, 512, 1000, 64, 2, 32, 256
			s.Attention, s.Precision = "eager", dtype.AmpFP
		}},
		{"starcoder2-3b", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.H, s.Heads, s.KVHeads, s.HeadDim, s.FFN = 1, 3, 17, 100, 64, 8, 8, 8, 64
			s.Attention, s.Precision = "eager", dtype.AmpBF
		}},
		// Nothing treated is another graph, which may have the lowest peak of all.
		{"qwen3-0.6b", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.H, s.Heads, s.KVHeads, s.HeadDim, s.FFN = 1, 32, 128, 100, 128, 2, 2, 64, 100
			s.Attention, s.Train.KeepLogits = "eager", false
			s.Train.LoRA, s.Train.Finetune = &spec.LoRA{Rank: 16, Alpha: 32, DType: "fp32", Targets: []string{"q_proj", "v_proj"}}, "lora"
		}},
	} {
		t.Run(c.preset, func(t *testing.T) {
			p := program(t, c.preset, c.change)
			gs, err := graphsOf(p)
			if err != nil {
				t.Fatal(err)
			}
			options := menu.Options(p.Graph, p.Graph.Layers/2)
			var peaks, times []int64
			low, high := int64(math.MaxInt64), int64(0)
			choice := make([]int, p.Graph.Layers)
			for more := true; more; more = next(choice, len(options)-1) {
				tl, err := gs.judge(context.Background(), planOf(options, choice), sheet)
				if err != nil {
					continue // parts that share ops
				}
				peaks, times = append(peaks, tl.Peak.Bytes), append(times, tl.Times.Step())
				low, high = min(low, tl.Peak.Bytes), max(high, tl.Peak.Bytes)
			}
			for n := int64(-1); n <= 12; n++ {
				budget := low - 1
				if n >= 0 {
					budget = low + (high-low)*n/12
				}
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
					if int64(no.Smallest) != low {
						t.Errorf("budget %d: the smallest is said to be %d, it is %d", budget, no.Smallest, low)
					}
				case err != nil:
					t.Fatal(err)
				case res.Timeline.Peak.Bytes > budget:
					t.Errorf("budget %d: a peak of %d", budget, res.Timeline.Peak.Bytes)
				case res.Timeline.Times.Step() != best: // though some are not proved to be the fastest
					t.Errorf("budget %d: %d ns (%s), the fastest of all %d plans takes %d", budget, res.Timeline.Times.Step(), res.Solution.Status, len(peaks), best)
				case res.Timeline.Times.Extra() < res.Solution.Bound:
					t.Errorf("budget %d: %d ns extra, below the bound %d", budget, res.Timeline.Times.Extra(), res.Solution.Bound)
				}
			}
			t.Logf("%d plans between %v and %v", len(peaks), unit.Bytes(low), unit.Bytes(high))
		})
	}
}

// TestNestedExhaustive: at budgets around the peak of every uniform strategy, nested plans and those of the class auto are
// no slower than any of them that fits; and where nothing fits, the smallest budget works and one byte less does not.
func TestNestedExhaustive(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset string
		change func(*spec.Spec)
	}{
		{"mistral-7b", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.H, s.Heads, s.KVHeads, s.HeadDim, s.FFN = 3, 1, 128, 100, 512, 8, 8, 64, 512
			s.Attention, s.Precision, s.Train.GradAccum = "math", dtype.AmpBF, 2
		}},
		{"gpt2", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.Precision, s.Attention = 5, 2, 333, 1000, dtype.FP32, "eager"
		}},
		{"falcon-7b", func(s *spec.Spec) {
			s.L, s.B, s.S, s.Vocab, s.H, s.Heads, s.HeadDim, s.FFN = 5, 2, 512, 5003, 32, 2, 16, 128
			s.Attention, s.Precision, s.Train.LossChunks = "eager", dtype.AmpFP, 4
		}},
	} {
		t.Run(c.preset, func(t *testing.T) {
			p := program(t, c.preset, c.change)
			gs, err := graphsOf(p)
			if err != nil {
				t.Fatal(err)
			}
			var named []Alternative
			low := unit.Bytes(math.MaxInt64)
			names := []string{"none", "full"}
			for k := 1; k <= p.Graph.Layers; k++ {
				for _, family := range []string{"segments-", "nested-", "every-", "first-", "last-"} {
					names = append(names, family+strconv.Itoa(k))
				}
			}
			for _, name := range names {
				a, err := gs.baseline(context.Background(), name, sheet, 0)
				if err != nil {
					t.Fatal(err)
				}
				named = append(named, a)
				low = min(low, unit.Bytes(a.Timeline.Peak.Bytes))
			}
			for _, class := range []string{"nested", "auto"} {
				slower := map[string]float64{"nested": 1, "auto": 1 - nestedGain}[class]
				fits := func(budget unit.Bytes) (*Result, *NoPlanError) {
					res, err := Optimize(context.Background(), p, Request{Budget: budget, Sheet: sheet, Class: class})
					var no *NoPlanError
					if err != nil && !errors.As(err, &no) {
						t.Fatal(err)
					}
					return res, no
				}
				for _, a := range named {
					budget := unit.Bytes(a.Timeline.Peak.Bytes)
					res, no := fits(budget)
					if no != nil {
						t.Errorf("%s, budget %d: no plan, but %s fits", class, budget, a.Name)
						continue
					}
					if n := res.Nested; n != nil && (n.Bound > n.Time || n.Time-n.Bound > res.Timeline.Times.Extra()) {
						t.Errorf("%s, budget %d: %d ns with a bound of %d, but only %d are recomputed", class, budget, n.Time, n.Bound, res.Timeline.Times.Extra())
					}
					for _, b := range named {
						if b.Timeline.Peak.Bytes <= int64(budget) && float64(b.Timeline.Times.Step()) < slower*float64(res.Timeline.Times.Step()) {
							t.Errorf("%s, budget %d: %d ns, %s fits and takes %d", class, budget, res.Timeline.Times.Step(), b.Name, b.Timeline.Times.Step())
						}
					}
				}
				_, no := fits(low / 2)
				if no == nil {
					t.Fatalf("%s: a plan of %d bytes", class, low/2)
				}
				if no.Smallest > low {
					t.Errorf("%s: the smallest budget is said to be %d, a named strategy takes %d", class, no.Smallest, low)
				}
				if _, bad := fits(no.Smallest); bad != nil {
					t.Errorf("%s: the smallest budget %d does not work", class, no.Smallest)
				}
				if _, bad := fits(no.Smallest - 1); bad == nil {
					t.Errorf("%s: one byte less than the smallest budget %d works as well", class, no.Smallest)
				}
			}
		})
	}
}
