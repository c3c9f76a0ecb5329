package model

import (
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
)

// The built graph of each class's default configuration has the parameters that were counted on the class itself.
func TestBuiltParameters(t *testing.T) {
	for name, want := range classParameters {
		s, err := LoadHF("config.json", whole(`{"model_type": "`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		g, err := Build(s, build.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got int64
		for _, p := range g.Params {
			got += p.Count
		}
		if got != want {
			t.Errorf("%s: %d parameters, the class has %d", name, got, want)
		}
	}
}

// Every op of a built graph is in one block, and the spans of a layer are inside it.
func TestBlocksAndSpans(t *testing.T) {
	for name := range classParameters {
		s, err := LoadHF("config.json", whole(`{"model_type": "`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		g, err := Build(s, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		next := graph.OpID(0)
		for _, b := range g.Blocks {
			if b.First != next {
				t.Errorf("%s: block %s starts at op %d, the last ended at %d", name, b.Label, b.First, next)
			}
			next = b.End
		}
		if next != graph.OpID(len(g.Ops)) {
			t.Errorf("%s: blocks end at op %d of %d", name, next, len(g.Ops))
		}
		for i := range g.Layers {
			l, ok := g.Span(i, "layer")
			if !ok {
				t.Fatalf("%s: layer %d has no span", name, i)
			}
			for _, sp := range g.Spans {
				if sp.Layer == i && (sp.First < l.First || sp.End > l.End || sp.First >= sp.End) {
					t.Errorf("%s: part %s of layer %d is ops %d to %d, the layer %d to %d", name, sp.Name, i, sp.First, sp.End, l.First, l.End)
				}
			}
		}
	}
}
