package model

import (
	"cmp"
	"slices"
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
)

// Spans are in the order of their layers, which Graph.Parts relies on.
func TestSpansAreInOrder(t *testing.T) {
	for _, p := range Presets() {
		n := p.Name
		s, err := LoadPreset(n)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Build(s, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(g.Spans, func(a, b graph.Span) int { return cmp.Compare(a.Layer, b.Layer) }) {
			t.Errorf("%s: spans out of order", n)
		}
	}
}
