package study

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/plan"
)

func option(name string, spans ...string) *plan.Option {
	o := &plan.Option{Name: name}
	for _, s := range spans {
		o.Regions = append(o.Regions, plan.Region{Span: s})
	}
	return o
}

func TestRunsCoverEveryLayer(t *testing.T) {
	p := &plan.Plan{Nodes: []plan.Node{
		{First: 1, Last: 3, Option: option("full", "layer")},
		{First: 4, Last: 4, Option: option("full", "layer")},
		{First: 5, Last: 6, Option: option("core+mlp", "core", "mlp")},
		{First: 9, Last: 10, Segment: true},
		{First: 11, Last: 14, Segment: true, Inner: []plan.Node{
			{First: 12, Last: 13, Segment: true, Inner: []plan.Node{{First: 13, Last: 13, Option: option("full", "layer")}}},
			{First: 14, Last: 14, Option: option("attn", "attn")},
		}},
	}}
	want := []string{
		"layer 0: keep all",
		"layers 1-4: recompute all",
		"layers 5-6: recompute attention core + MLP",
		"layers 7-8: keep all",
		"layers 9-10: recompute together",
		"layers 11-14: recompute together",
		"  layer 11: keep all of the second run",
		"  layers 12-13: recompute together once more",
		"    layer 12: keep all of the second run",
		"    layer 13: recompute all once more",
		"  layer 14: recompute attention once more",
		"layer 15: keep all",
	}
	var got []string
	for _, r := range Tree(p, 16) {
		layers := fmt.Sprintf("layers %d-%d", r.First, r.Last)
		if r.First == r.Last {
			layers = fmt.Sprintf("layer %d", r.First)
		}
		got = append(got, strings.Repeat("  ", r.Depth)+layers+": "+r.Words)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A layer that a plan keeps, or of which it recomputes a part, runs once, a checkpointed one twice, one in a segment in a segment three times.
func TestMostForwards(t *testing.T) {
	for name, want := range map[string]int{"none": 1, "offload": 1, "full": 2, "selective": 1, "segments-3": 2, "nested-3": 3} {
		p, err := plan.Named(name, 12)
		if err != nil {
			t.Fatal(err)
		}
		if got := mostForwards(p.Nodes); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestPlanWords(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
	}{
		{"none", "keep everything"},
		{"full", "recompute all in layers 0-11"},
		{"selective", "recompute attention core in layers 0-11"},
		{"first-6", "recompute all in layers 0-5"},
		{"offload", "offload all in layers 0-11"},
		{"offload-inputs", "recompute all, inputs on the host in layers 0-11"},
		{"every-2", "recompute all in layers 0, 2, 4, 6, 8, 10"},
		{"every-1", "recompute all in layers 0-11"},
		{"segments-6", "recompute 2 segments of 6 layers in layers 0-11"},
		{"segments-5", "recompute 3 segments of 2 to 5 layers in layers 0-11"},
		{"nested-6", "recompute 2 segments of 6 layers in layers 0-11, with checkpoints inside"},
	} {
		p, err := plan.Named(c.name, 12)
		if err != nil {
			t.Fatal(err)
		}
		if got := PlanWords(p, 12); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
