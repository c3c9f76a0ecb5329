package report

import (
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
		{First: 11, Last: 12, Segment: true, Inner: []plan.Node{{First: 11, Last: 12, Option: option("full", "layer")}}},
	}}
	want := []string{
		"layer 0: keep all",
		"layers 1-4: recompute all",
		"layers 5-6: recompute attention core + MLP",
		"layers 7-8: keep all",
		"layers 9-10: recompute together",
		"layers 11-12: recompute together, inside all again in 11-12",
		"layer 13: keep all",
	}
	var got []string
	for _, r := range runs(p, 14) {
		got = append(got, r.layers()+": "+r.words)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
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
		{"every-2", "recompute all in layer 0, recompute all in layer 2, recompute all in layer 4 and 3 more runs of layers"},
		{"segments-6", "recompute together in layers 0-5, recompute together in layers 6-11"},
	} {
		p, err := plan.Named(c.name, 12)
		if err != nil {
			t.Fatal(err)
		}
		if got := planWords(p, 12); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
