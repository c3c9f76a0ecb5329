package model

import (
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
)

// TestOrdinal: a selective policy counts calls by the name that it sees, whoever makes them.
func TestOrdinal(t *testing.T) {
	for _, c := range []struct {
		name, config, attention, span, aten string
		want                                int
	}{
		// tanh-GELU adds 1 twice before the residual is added.
		{"plain ops count", `{"model_type": "bloom", "n_layer": 1, "hidden_size": 16, "n_head": 2, "vocab_size": 11}`, "eager", "mlp", "aten.add", 2},
		// ε of the norm, rotary's q and k, the residual and the next norm's ε come before; the mask is added in place.
		{"in place is another name", `{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 11}`, "math", "layer", "aten.add", 5},
	} {
		s, err := LoadHF(c.name, []byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		s.S, s.Attention = 8, c.attention
		g, err := Build(s, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sp, _ := g.Span(0, c.span)
		last := sp.End - 1
		for g.Aten(last) != c.aten {
			last--
		}
		if got := g.Ordinal(sp.First, last); got != c.want {
			t.Errorf("%s: the last %s of %s is number %d, want %d", c.name, c.aten, c.span, got, c.want)
		}
	}
}

// Under autocast a module's name is its matrix product's, not the cast of its weight.
func TestLabelsUnderAutocast(t *testing.T) {
	g := built(t, "{arch: llama, L: 1, S: 8, H: 32, B: 1, heads: 4, ffn: 64, vocab: 20, dtype: amp-bf16}")
	layer, _ := g.Span(0, "layer")
	for i, label := range g.Labels(layer.First, layer.End) {
		if label == "q_proj" {
			if got := g.Aten(layer.First + graph.OpID(i)); got != "aten.mm" {
				t.Errorf("q_proj is %s", got)
			}
			return
		}
	}
	t.Error("no q_proj")
}

// built is the graph of a spec document.
func built(t *testing.T, doc string) *graph.Graph {
	t.Helper()
	s, err := Load("spec.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	g, err := Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
