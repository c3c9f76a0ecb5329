package memory

import (
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
)

// Two micro batches in flight, as a stage of a pipeline has them: F0 F1 B0 B1. What F0 keeps is still there when F1 has run,
// so that before B0 twice what one micro batch keeps is alive, and F1 and B0 run beside one share more than alone. B1 finds
// what the second of two accumulated micro batches finds, the gradients of the first, and adds to them in place.
func TestInterleavedMicroBatches(t *testing.T) {
	for _, strategy := range []string{"none", "full", "offload", "every-2"} {
		spec, err := model.LoadPreset("gpt2")
		if err != nil {
			t.Fatal(err)
		}
		spec.L, spec.S, spec.B, spec.Train.KeepLogits = 3, 64, 2, false
		g, err := model.Build(spec, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pl, err := plan.Named(strategy, g.Layers)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Lower(Compile(g), pl)
		if err != nil {
			t.Fatal(err)
		}
		one, err := Simulate(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Passes = []Pass{{Forward, 0, 1}, {Forward, 1, 1}, {Backward, 0, 1}, {Backward, 1, 1}, {Optimizer, 0, 1}}
		two, err := Simulate(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		static := int64(one.Parameters + one.Inputs + one.Optimizer)
		kept := one.Second.BeforeBackward - static // by one micro batch
		if got := two.Second.BeforeBackward - static; got != 2*kept {
			t.Errorf("%s: two forwards keep %d bytes, want 2 · %d", strategy, got, kept)
		}
		if got, want := two.Second.Peak[Forward].Bytes, one.Second.Peak[Forward].Bytes+kept; got != want {
			t.Errorf("%s: forward peaks at %d, want the %d of one micro batch over what the other keeps", strategy, got, want)
		}
		s.Passes = accumulated(2)
		accum, err := Simulate(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := two.Second.Peak[Backward].Bytes, max(one.Second.Peak[Backward].Bytes+kept, accum.Second.Peak[Backward].Bytes); got != want {
			t.Errorf("%s: backward peaks at %d, want %d", strategy, got, want)
		}
		if got, want := two.Second.AfterBackward, static+int64(two.Gradients); got != want {
			t.Errorf("%s: %d bytes after backward, want weights, state and gradients: %d", strategy, got, want)
		}
		if got, want := two.Second.HostPeak, 2*one.Second.HostPeak; got != want {
			t.Errorf("%s: %d bytes on the host, want those of two micro batches, %d", strategy, got, want)
		}
		if two.Second.AfterStep != one.Second.AfterStep {
			t.Errorf("%s: the step ends with %d bytes, not %d", strategy, two.Second.AfterStep, one.Second.AfterStep)
		}
	}
}

// counted counts what it is told.
type counted struct {
	events, alive, least, most int64
	passes                     []Pass
	blocks                     []int32
}

func (c *counted) Pass(p Pass, _ *Instant) {
	c.passes, c.blocks = append(c.passes, p), append(c.blocks, -2)
}
func (c *counted) Block(b int32, _ *Instant) { c.blocks = append(c.blocks, b) }

func (c *counted) Alloc(_ ID, bytes int64, _ *Instant) {
	c.events++
	c.alive += bytes
	c.most = max(c.most, c.alive)
}

func (c *counted) Free(_ ID, bytes int64, _ *Instant) {
	c.events++
	c.alive -= bytes
	c.least = min(c.least, c.alive)
}

// An observer sees all: from nothing to the parameters, through blocks there and back, to the peak, and gradients freed.
func TestObserverSeesTheStep(t *testing.T) {
	spec, err := model.LoadPreset("gpt2")
	if err != nil {
		t.Fatal(err)
	}
	spec.L = 2
	g, err := model.Build(spec, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Lower(Compile(g), &plan.Plan{Nodes: []plan.Node{{Last: 1, Option: &plan.Full}}})
	if err != nil {
		t.Fatal(err)
	}
	tl, err := Simulate(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var c counted
	if err := Observe(s, 2, &c); err != nil {
		t.Fatal(err)
	}
	if c.most != tl.Peak.Bytes || c.least < 0 || c.alive != tl.Second.AfterStep {
		t.Errorf("peak %d of %d, never below %d, at last %d of %d", c.most, tl.Peak.Bytes, c.least, c.alive, tl.Second.AfterStep)
	}
	if want := []Pass{{Forward, 0, 1}, {Backward, 0, 1}, {Optimizer, 0, 1}}; len(c.passes) != 6 || [3]Pass(c.passes[3:]) != [3]Pass(want) {
		t.Errorf("passes %v", c.passes)
	}
	step := []int32{-2, 0, 1, 2, 3, 4, -2, 3, 2, 1, 0, -1, -2} // embedding, two layers, head
	if len(c.blocks) != 2*len(step) || [13]int32(c.blocks) != [13]int32(step) {
		t.Errorf("blocks %v, want %v twice", c.blocks, step)
	}
}

// quiet is an observer that does nothing.
type quiet struct{ events int }

func (*quiet) Pass(Pass, *Instant)         {}
func (*quiet) Block(int32, *Instant)       {}
func (q *quiet) Alloc(ID, int64, *Instant) { q.events++ }
func (q *quiet) Free(ID, int64, *Instant)  { q.events++ }

// BenchmarkObserve405B walks two steps with every layer checkpointed before an observer that does nothing.
func BenchmarkObserve405B(b *testing.B) {
	spec, err := model.LoadPreset("llama-3.1-405b")
	if err != nil {
		b.Fatal(err)
	}
	g, err := model.Build(spec, build.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := Lower(Compile(g), &plan.Plan{Nodes: []plan.Node{{Last: g.Layers - 1, Option: &plan.Full}}})
	if err != nil {
		b.Fatal(err)
	}
	var o quiet
	b.ReportAllocs()
	for b.Loop() {
		if err := Observe(s, 2, &o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(o.events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(o.events)/float64(b.N), "events")
}
