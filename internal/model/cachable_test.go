package model

import (
	"testing"

	"ckptplan/internal/model/graph"
)

// A selective checkpoint keeps results, not views of them, nor what is changed in place.
func TestUncachable(t *testing.T) {
	g := built(t, "{arch: falcon, L: 1, S: 8, H: 32, B: 1, heads: 4, kv_heads: 1, vocab: 20, attention: eager, dtype: bf16}")
	layer, _ := g.Span(0, "layer")
	got := map[string]string{}
	for i, label := range g.Labels(layer.First, layer.End) {
		got[label] = g.Uncachable(layer.First + graph.OpID(i))
	}
	for label, want := range map[string]string{
		"query_key_value": "",
		"bmm":             "is changed in place by aten.div_",
		"div":             "makes no tensor of its own",
		"bmm.2":           "",
		"_softmax":        "",
		"view":            "makes no tensor of its own",
	} {
		if why, ok := got[label]; !ok || why != want {
			t.Errorf("%s: %q, not %q (%v)", label, why, want, ok)
		}
	}
}
