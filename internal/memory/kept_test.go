package memory

import (
	"testing"

	"pgregory.net/rapid"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// keptIn is the plan with every layer one checkpoint that keeps the outputs of the named ops.
func keptIn(layers int, names ...string) *plan.Plan {
	o := plan.Option{Name: "kept", Regions: []plan.Region{{Span: "layer", Cache: names}}}
	return &plan.Plan{Nodes: []plan.Node{{Last: layers - 1, Option: &o}}}
}

// A kept op is not run again: its kernel is missing from the recompute. By hand, for Llama-3-8B on an H200 with one
// sequence of 8,192 tokens: a product of [S, k] and [k, n] is 2·S·k·n FLOPs and reads and writes S·k + k·n + S·n
// elements of 2 bytes; causal attention is half of 4·S²·H FLOPs.
func TestKeptOpsAreNotRunAgain(t *testing.T) {
	h200, err := gpu.Lookup("h200")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := model.LoadPreset("llama-3-8b")
	if err != nil {
		t.Fatal(err)
	}
	spec.S, spec.B = 8192, 1
	g, err := model.Build(spec, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := Compile(g)
	run := func(names ...string) *Timeline {
		tl, err := Judge(p, keptIn(g.Layers, names...), h200)
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	const s, hidden, kv, ffn = 8192, 4096, 1024, 14336
	product := func(k, n int64) int64 {
		return h200.OpTime(2*s*k*n, 2*(s*k+k*n+s*n), dtype.BF16, true)
	}
	full := run()
	for _, c := range []struct {
		names []string
		saved int64
	}{
		{[]string{"q_proj"}, product(hidden, hidden)},
		{[]string{"q_proj", "v_proj", "up_proj"}, product(hidden, hidden) + product(hidden, kv) + product(hidden, ffn)},
		{[]string{"attention"}, h200.OpTime(2*s*s*hidden, 1, dtype.BF16, true)},
	} {
		kept := run(c.names...)
		if got, want := full.Times.Recompute-kept.Times.Recompute, 32*c.saved; got != want {
			t.Errorf("keeping %v saves %d ns of recompute, want %d", c.names, got, want)
		}
		if kept.Times.Backward != full.Times.Backward || kept.Times.Forward != full.Times.Forward {
			t.Errorf("keeping %v changes more than the recompute: %+v, %+v", c.names, kept.Times, full.Times)
		}
		if kept.Second.BeforeBackward <= full.Second.BeforeBackward {
			t.Errorf("keeping %v takes no memory", c.names)
		}
	}
}

// A plan that keeps more ops is never longer and never keeps less for backward, whatever the model.
func TestKeepingMoreIsNeverLonger(t *testing.T) {
	card, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	presets := model.Presets()
	rapid.Check(t, func(t *rapid.T) {
		spec, err := model.LoadPreset(rapid.SampledFrom(presets).Draw(t, "preset").Name)
		if err != nil {
			t.Fatal(err)
		}
		spec.L = min(spec.L, 4)
		g, err := model.Build(spec, build.Options{})
		if err != nil {
			t.Skip(err)
		}
		l := rapid.IntRange(0, g.Layers-1).Draw(t, "layer")
		whole, _ := g.Span(l, "layer")
		var few, more []string
		for i, name := range g.Labels(whole.First, whole.End) {
			if g.Uncachable(whole.First+graph.OpID(i)) != "" {
				continue
			}
			switch rapid.IntRange(0, 3).Draw(t, name) {
			case 0:
				few = append(few, name)
				fallthrough
			case 1:
				more = append(more, name)
			}
		}
		p := Compile(g)
		run := func(names []string) *Timeline {
			pl := keptIn(1, names...)
			pl.Nodes[0].First, pl.Nodes[0].Last = l, l
			tl, err := Judge(p, pl, card)
			if err != nil {
				t.Fatal(err)
			}
			return tl
		}
		a, b := run(few), run(more)
		if b.Times.Step() > a.Times.Step() || b.Second.BeforeBackward < a.Second.BeforeBackward {
			t.Fatalf("layer %d of %s: %d ns and %d bytes with %v, %d ns and %d bytes with %v", l, spec.Name,
				a.Times.Step(), a.Second.BeforeBackward, few, b.Times.Step(), b.Second.BeforeBackward, more)
		}
	})
}
