package torch

import (
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

// TestTorchT5 compares every figure of an encoder-decoder under checkpointing with the prediction. Two things of its
// class take a gradient then: the embeddings of encoder and decoder both, if the weights are frozen (without the
// decoder's, forward was 2 % lower), and the cross-attention's position bias of zeros (without it, backward was).
func TestTorchT5(t *testing.T) {
	py := torchPython(t)
	for _, c := range []struct{ name, strategy, train string }{
		{"full, adapters", "full", ", train: {lora: {r: 4, targets: [q, v]}}"},
		{"every other layer", "every-2", ""},
		{"the attentions, adapters", "selective-attn", ", train: {lora: {r: 4, targets: [q, v]}}"},
		{"adapters beside all layers", "selective-mlp", ", train: {lora: {r: 4, targets: [all-linear]}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("t5.yaml", []byte("{arch: t5, L: 2, S: 32, H: 64, B: 2, heads: 4, head_dim: 16, ffn: 128, vocab: 200, "+
				"dtype: fp32, attention: eager, checkpoint: "+c.strategy+c.train+"}"))
			if err != nil {
				t.Fatal(err)
			}
			g := graphOf(t, s)
			p := named(t, g, c.strategy)
			m, err := Run(t.Context(), Options{Python: py, Device: "meta", Graph: g, Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			agree(t, judge(t, g, p), m, 0)
		})
	}
}

// TestTorchT5Parts mixes the parts of a layer over encoder and decoder, as optimal plans do.
func TestTorchT5Parts(t *testing.T) {
	py := torchPython(t)
	option := func(spans ...string) *plan.Option {
		o := plan.Option{}
		for _, s := range spans {
			o.Name += s + " "
			o.Regions = append(o.Regions, plan.Region{Span: s})
		}
		return &o
	}
	p := &plan.Plan{Nodes: []plan.Node{
		{First: 0, Last: 0, Option: option("attn", "norm2", "act")},
		{First: 1, Last: 1, Option: option("norm1", "norm2")},
		{First: 2, Last: 2, Option: option("attn", "act")},
		{First: 3, Last: 3, Option: option("act", "norm1", "norm2")}, // in any order
		{First: 4, Last: 4, Option: option("norm1", "norm2", "act")},
	}}
	// By keyword: no layer keeps the position bias but the last, whose attention gets it so.
	host := &plan.Plan{Nodes: []plan.Node{{First: 4, Last: 4, Option: &plan.Option{Name: "x", Regions: []plan.Region{{Span: "attn", Offload: "inputs"}, {Span: "mlp"}}}}}}
	gated := &plan.Plan{Nodes: []plan.Node{ // the second norm's part reaches over the activation there
		{First: 0, Last: 0, Option: option("attn", "norm2")},
		{First: 1, Last: 1, Option: option("norm1", "act")},
		{First: 2, Last: 2, Option: option("attn", "act")},
		{First: 3, Last: 3, Option: option("norm1", "mlp")},
		{First: 4, Last: 4, Option: option("norm2")},
	}}
	for _, c := range []struct {
		name, doc string
		plan      *plan.Plan
	}{
		{"bf16", "dtype: bf16", p},
		{"gated", "dtype: bf16, gated: true, activation: gelu_new", gated},
		{"amp", "precision: amp-bf16", p},
		{"an attention's inputs on the host", "dtype: bf16", host},
		{"gated, adapters", "dtype: fp32, gated: true, activation: gelu_new, train: {lora: {r: 4, targets: [q, v, wi_1]}}", gated},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := model.Load("t5.yaml", []byte("{arch: t5, L: 2, decoder_L: 3, S: 40, decoder_S: 24, H: 64, B: 2, heads: 4, head_dim: 16, ffn: 128, vocab: 200, "+
				"attention: eager, checkpoint: selective-attn, "+c.doc+"}"))
			if err != nil {
				t.Fatal(err)
			}
			g := graphOf(t, s)
			m, err := Run(t.Context(), Options{Python: py, Device: "meta", Graph: g, Plan: c.plan})
			if err != nil {
				t.Fatal(err)
			}
			agree(t, judge(t, g, c.plan), m, 0)
		})
	}
}
