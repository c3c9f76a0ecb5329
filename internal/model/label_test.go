package model

import "testing"

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
		g, err := s.Build()
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

// A selective checkpoint keeps results, not views of them, nor what is changed in place.
func TestUncachable(t *testing.T) {
	s, err := Load("falcon.yaml", []byte("arch: falcon\nL: 1\nS: 8\nH: 32\nB: 1\nheads: 4\nkv_heads: 1\nvocab: 20\nattention: eager\ndtype: bf16\n"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	layer, _ := g.Span(0, "layer")
	got := map[string]string{}
	for i, label := range g.Labels(layer.First, layer.End) {
		got[label] = g.Uncachable(layer.First + OpID(i))
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

// Under autocast a module's name is its matrix product's, not the cast of its weight.
func TestLabelsUnderAutocast(t *testing.T) {
	s, err := Load("llama.yaml", []byte("arch: llama\nL: 1\nS: 8\nH: 32\nB: 1\nheads: 4\nffn: 64\nvocab: 20\ndtype: amp-bf16\n"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	layer, _ := g.Span(0, "layer")
	for i, label := range g.Labels(layer.First, layer.End) {
		if label == "q_proj" {
			if got := g.Aten(layer.First + OpID(i)); got != "aten.mm" {
				t.Errorf("q_proj is %s", got)
			}
			return
		}
	}
	t.Error("no q_proj")
}
