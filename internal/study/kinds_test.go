package study

import (
	"math"
	"slices"
	"testing"

	"ckptplan/internal/export"
	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/strategy/menu"
	"ckptplan/internal/unit"
)

// TestObjectivesOnOwnGraph: of a T5 with one layer a stack every plan is simulated, each on the graph of its kind. The lowest
// peak, the frontier, and the plans of targets with two families of them are what that finds; named strategies stand in
// the frontier as estimate prints them; and the row of the best micro batch is that of the plan.
func TestObjectivesOnOwnGraph(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{
		"{arch: t5, L: 1, decoder_L: 1, S: 96, decoder_S: 64, H: 64, B: 4, heads: 4, ffn: 128, vocab: 500, dtype: bf16}",
		"{arch: t5, L: 1, decoder_L: 1, S: 200, decoder_S: 40, H: 64, B: 2, heads: 4, ffn: 128, vocab: 100, precision: amp-fp16, train: {keep_logits: false, grad_accum: 2}}",
	} {
		study := studyOf(t, doc, sheet)
		type outcome struct {
			peak, step int64
			modules    bool // every region is a module of the class: a layer or its MLP
		}
		var all []outcome
		low, high := int64(math.MaxInt64), int64(0)
		p, err := study.program()
		if err != nil {
			t.Fatal(err)
		}
		options := menu.Options(p.Graph, 0)
		for _, o := range menu.Options(p.Graph, 1) {
			if !slices.ContainsFunc(options, func(x plan.Option) bool { return x.Name == o.Name }) {
				options = append(options, o)
			}
		}
		for a := range options {
			for b := range options {
				pl := &plan.Plan{}
				modules := true
				for l, o := range []*plan.Option{&options[a], &options[b]} {
					if len(o.Regions) > 0 {
						pl.Nodes = append(pl.Nodes, plan.Node{First: l, Last: l, Option: o})
						for _, r := range o.Regions {
							modules = modules && len(r.Cache) == 0 && (r.Span == "layer" || r.Span == "mlp")
						}
					}
				}
				pr, err := study.Simulate(Choice{Plan: pl})
				if err != nil {
					continue // parts that share ops, or that only one of the stacks has
				}
				all = append(all, outcome{pr.Timeline.Peak.Bytes, pr.Timeline.Times.Step(), modules})
				low, high = min(low, pr.Timeline.Peak.Bytes), max(high, pr.Timeline.Peak.Bytes)
			}
		}
		fastest := func(budget int64, modules bool) int64 {
			best := int64(math.MaxInt64)
			for _, o := range all {
				if o.peak <= budget && (o.modules || !modules) {
					best = min(best, o.step)
				}
			}
			return best
		}

		o, err := study.under("flat", 0).Leanest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if is := int64(o.Estimate.Peak.TensorBytes); is != low {
			t.Errorf("%s\nthe lowest peak is said to be %d, it is %d", doc, is, low)
		}

		f, err := study.Frontier(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if is := int64(f.Points[0].PeakBytes); is != low {
			t.Errorf("%s\nthe frontier begins at %d, not at %d", doc, is, low)
		}
		for _, x := range f.Points {
			if best := fastest(int64(x.PeakBytes), false); best != x.StepNanoseconds {
				t.Errorf("%s\nfrontier: %d ns at %d bytes, the fastest plan takes %d", doc, x.StepNanoseconds, int64(x.PeakBytes), best)
			}
		}
		for _, n := range f.Named {
			named, err := plan.Named(n.Strategy, 2)
			if err != nil {
				t.Fatal(err)
			}
			is, err := study.Simulate(Choice{Plan: named})
			if err != nil {
				t.Fatal(err)
			}
			if is.Timeline.Peak.Bytes != int64(n.PeakBytes) || is.Timeline.Times.Step() != n.StepNanoseconds {
				t.Errorf("%s\nfrontier: %s at %d bytes, %d ns, by estimate %d and %d", doc, n.Strategy, int64(n.PeakBytes), n.StepNanoseconds, is.Timeline.Peak.Bytes, is.Timeline.Times.Step())
			}
		}

		for _, name := range []string{"torch", "checkpoint-wrapper"} {
			target, err := export.FindTarget(name)
			if err != nil {
				t.Fatal(err)
			}
			for n := range int64(8) {
				budget := low + (high-low)*n/7
				best := fastest(budget, name == "checkpoint-wrapper")
				at := study.under("flat", unit.Bytes(budget))
				at.Target = target
				o, err := at.Optimize(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case o.Plan == nil && best != math.MaxInt64:
					t.Errorf("%s\n%s, budget %d: no plan, one of %d ns exists", doc, name, budget, best)
				case o.Plan != nil && (o.Estimate.Time.StepNanoseconds != best || int64(o.Estimate.Peak.TensorBytes) > budget):
					t.Errorf("%s\n%s, budget %d: %d ns at %d bytes, the fastest plan takes %d", doc, name, budget, o.Estimate.Time.StepNanoseconds, int64(o.Estimate.Peak.TensorBytes), best)
				}
			}
		}

		if o, err = study.under("flat", unit.Bytes(2*low)).Throughput(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for _, b := range o.Batches {
			if b.Batch == o.Model.Batch && b.TokensPerSecond != o.Estimate.Time.TokensPerSecond {
				t.Errorf("%s\nmicro batch %d: %f tokens/s, its plan has %f", doc, b.Batch, b.TokensPerSecond, o.Estimate.Time.TokensPerSecond)
			}
		}
	}
}

// TestAllowedHeadByObjective: with an allowed head the lowest peak is that of the leaner head, whatever the budget, and the
// largest micro batch that of the head that takes the most.
func TestAllowedHeadByObjective(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	sx, err := model.Load("spec.yaml", []byte("{arch: t5, L: 2, decoder_L: 2, S: 96, decoder_S: 64, H: 64, B: 4, heads: 4, ffn: 128, vocab: 3000, dtype: bf16}"))
	if err != nil {
		t.Fatal(err)
	}
	dropped := *sx
	dropped.Train.KeepLogits = false
	for _, objective := range []Objective{Memory, MaxBatch, Throughput} {
		ask := func(spec *spec.Spec, allow ...string) (*Optimization, error) {
			s, err := New(spec, Request{Request: strategy.Request{Class: "flat", Sheet: sheet, Budget: 30_000_000}, Allow: allow})
			if err != nil {
				return nil, err
			}
			switch objective {
			case Memory:
				return s.Leanest(t.Context())
			case MaxBatch:
				return s.Largest(t.Context(), MaxBatch)
			}
			return s.Throughput(t.Context(), 0)
		}
		got, err := ask(sx, DropLogits)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*spec.Spec{sx, &dropped} {
			o, err := ask(s)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case objective == Memory && o.Estimate.Peak.TensorBytes < got.Estimate.Peak.TensorBytes:
				t.Errorf("a peak of %d, with keep_logits %v it is %d", int64(got.Estimate.Peak.TensorBytes), s.Train.KeepLogits, int64(o.Estimate.Peak.TensorBytes))
			case objective == MaxBatch && o.Model.Batch > got.Model.Batch:
				t.Errorf("micro batch %d, with keep_logits %v it is %d", got.Model.Batch, s.Train.KeepLogits, o.Model.Batch)
			case objective == Throughput && o.Estimate.Time.TokensPerSecond > got.Estimate.Time.TokensPerSecond:
				t.Errorf("%f tokens/s, with keep_logits %v %f", got.Estimate.Time.TokensPerSecond, s.Train.KeepLogits, o.Estimate.Time.TokensPerSecond)
			}
		}
	}
}
