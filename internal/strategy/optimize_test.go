package strategy

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

func program(t testing.TB, preset string, change func(*spec.Spec)) *memory.Program {
	t.Helper()
	s, err := model.LoadPreset(preset)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	g, err := model.Build(s, build.Options{Checkpoint: "full"})
	if err != nil {
		t.Fatal(err)
	}
	return memory.Compile(g)
}

// TestBelievedIsSimulated: on random plans mixing options layer by layer, the flat problem's rows give the simulator's
// peak to the byte.
func TestBelievedIsSimulated(t *testing.T) {
	lora := &spec.LoRA{Rank: 16, Alpha: 32, DType: "fp32", Targets: []string{"q_proj", "v_proj"}}
	for _, c := range []struct {
		name, preset string
		change       func(*spec.Spec)
	}{
		{"host, eager", "starcoder2-3b", func(s *spec.Spec) { s.L, s.S, s.Attention = 3, 512, "eager" }},
		{"host, lora", "gemma-2-2b", func(s *spec.Spec) { s.L, s.S, s.Train.LoRA = 3, 333, lora }},
		{"gpt2 eager", "gpt2", func(s *spec.Spec) { s.Attention = "eager"; s.S = 512 }},
		{"gpt2 amp", "gpt2", func(s *spec.Spec) { s.Precision = dtype.AmpBF; s.B = 4 }},
		{"gpt-1.3b", "gpt-1.3b", nil},
		{"llama-3.2-1b", "llama-3.2-1b", nil},
		{"llama-3.2-1b amp", "llama-3.2-1b", func(s *spec.Spec) { s.Precision = dtype.AmpBF }},
		{"llama-3.2-1b fp32 eager", "llama-3.2-1b", func(s *spec.Spec) { s.Precision = dtype.FP32; s.Attention = "eager" }},
		{"llama-3-8b lora", "llama-3-8b", func(s *spec.Spec) { s.Train.LoRA = lora }},
		{"gemma-2 windows", "gemma-2-2b", func(s *spec.Spec) { s.S = 8192; s.Attention = "eager" }},
		{"llama-3-70b", "llama-3-70b", nil},
		{"t5", "t5-base", func(s *spec.Spec) { s.S = 384 }},
		{"t5 amp, other lengths", "t5-base", func(s *spec.Spec) { s.Precision, s.S, s.DecoderS, s.DecoderL = dtype.AmpBF, 192, 320, 5 }},
		{"t5 long targets lora", "t5-base", func(s *spec.Spec) {
			s.S, s.DecoderS = 136, 504
			s.Train.LoRA = &spec.LoRA{Rank: 8, Alpha: 16, DType: "fp32", Targets: []string{"q", "v"}}
		}},
		{"qwen3 fused norm", "qwen3-0.6b", func(s *spec.Spec) { s.Norm = "rmsnorm-fused" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := program(t, c.preset, c.change)
			sheet, err := gpu.Lookup("a100-80gb")
			if err != nil {
				t.Fatal(err)
			}
			sp, err := graphs{"none": p}.space(context.Background(), Request{Sheet: sheet, Offload: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			prob := sp.Problem()
			rng := rand.New(rand.NewSource(1))
			for n := range 60 {
				choice := make([]int, len(prob.Blocks))
				few := 1 + rng.Intn(len(sp.Options))
				for i := range choice {
					choice[i] = rng.Intn(few)
					if n%3 == 0 && i > 0 && rng.Intn(3) > 0 {
						choice[i] = choice[i-1]
					}
				}
				tl, err := memory.Judge(p, planOf(sp.Options, choice), nil)
				if err != nil {
					t.Fatal(err)
				}
				peak, _ := prob.Evaluate(choice)
				if peak != tl.Peak.Bytes {
					names := ""
					for _, k := range choice {
						names += " " + sp.Options[k].Name
					}
					t.Fatalf("believed %d, simulated %d (%+d) at %s %s:%s", peak, tl.Peak.Bytes, peak-tl.Peak.Bytes, tl.Peak.Phase, tl.Block(tl.Peak), names)
				}
			}
		})
	}
}

// TestLeanest: the leanest plan of all classes peaks no higher, simulated, than the leanest flat one and the named
// strategies.
func TestLeanest(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range []string{"gpt2", "llama-3.2-1b", "gpt-1.3b"} {
		p := program(t, preset, nil)
		peak := map[string]int64{}
		for _, class := range []string{"flat", "auto"} {
			res, err := Leanest(context.Background(), p, Request{Sheet: sheet, Class: class})
			if err != nil {
				t.Fatal(err)
			}
			peak[class] = res.Timeline.Peak.Bytes
		}
		if peak["auto"] > peak["flat"] {
			t.Errorf("%s: %d, flat %d", preset, peak["auto"], peak["flat"])
		}
		for _, name := range append(Baselines, "segments-2", "segments-4", "nested-2") {
			a, err := graphs{"none": p}.baseline(context.Background(), name, sheet, 0)
			if err != nil {
				t.Fatal(err)
			}
			if a.Timeline.Peak.Bytes < peak["auto"] {
				t.Errorf("%s: %s peaks at %d, the leanest plan at %d", preset, name, a.Timeline.Peak.Bytes, peak["auto"])
			}
		}
	}
}

// TestOptimizeBeatsNamed: within budget when simulated, never slower than a named strategy that fits.
func TestOptimizeBeatsNamed(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	lora := &spec.LoRA{Rank: 16, Alpha: 32, DType: "fp32", Targets: []string{"q_proj", "v_proj"}}
	for _, c := range []struct {
		preset string
		change func(*spec.Spec)
	}{
		{"llama-3-8b", func(s *spec.Spec) { s.Train.LoRA = lora; s.B, s.S = 2, 2048 }},
		{"gpt-1.3b", nil},
		{"llama-3.2-1b", func(s *spec.Spec) { s.B, s.S = 8, 2048 }},
	} {
		p := program(t, c.preset, c.change)
		for _, gb := range []unit.Bytes{24, 40, 80} {
			t.Run(fmt.Sprintf("%s %d GB", c.preset, gb), func(t *testing.T) {
				res, err := Optimize(context.Background(), p, Request{Budget: gb * 1e9, Reserve: -1, Sheet: sheet})
				var no *NoPlanError
				if errors.As(err, &no) {
					for _, a := range no.Named {
						if a.Fits {
							t.Errorf("no plan, but %s fits", a.Name)
						}
					}
					t.Logf("%v; leanest %v at %s", no, no.Leanest.Peak, no.Leanest.Block(no.Leanest.Peak))
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := unit.Bytes(res.Timeline.Peak.Bytes); got > res.TensorBudget {
					t.Errorf("peak %d over %d", got, res.TensorBudget)
				}
				if res.Class == "flat" && res.Timeline.Peak.Bytes != res.Solution.Peak {
					t.Errorf("the solver believed %d, the simulator says %d", res.Solution.Peak, res.Timeline.Peak.Bytes)
				}
				for _, a := range res.Named {
					if a.Fits && a.Timeline.Times.Step() < res.Timeline.Times.Step() {
						t.Errorf("%s is faster", a.Name)
					}
				}
				for _, n := range res.Plan.Nodes {
					if n.Segment {
						t.Logf("  layers %d-%d segment of %d nodes", n.First, n.Last, len(n.Inner))
						continue
					}
					t.Logf("  layers %d-%d %s", n.First, n.Last, n.Option.Name)
				}
				t.Logf("%s: peak %s time %+.2f%%", res.Class, unit.Bytes(res.Timeline.Peak.Bytes).Both(), 100*float64(res.Timeline.Times.Recompute)/float64(res.Timeline.Times.Step()-res.Timeline.Times.Recompute))
			})
		}
	}
}

var _ = plan.Keep
