package memory

import (
	"strings"
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
)

// GPT-2's attention core takes views of the three parts of one product: to the host goes a copy of a view, and what
// comes back is not the tensor that the region started from.
func TestOffloadOfViews(t *testing.T) {
	p := programOf(t, "gpt2", at(2, 64))
	offload := func(span string) error {
		o := &plan.Option{Name: span, Regions: []plan.Region{{Span: span, Offload: "inputs"}}}
		_, err := Lower(p, &plan.Plan{Nodes: []plan.Node{{First: 0, Last: 11, Option: o}}})
		return err
	}
	if err := offload("layer"); err != nil {
		t.Errorf("a layer takes one whole tensor: %v", err)
	}
	if err := offload("core"); err == nil || !strings.Contains(err.Error(), "layer 0: offload inputs is for parts that take whole tensors") {
		t.Errorf("core: %v", err)
	}
}

// An encoder-decoder's segments lie in one of its stacks.
func TestSegmentsOfTwoStacks(t *testing.T) {
	p := programOf(t, "t5-base", at(2, 64))
	for name, ok := range map[string]bool{"segments-3": true, "nested-4": true, "segments-12": true, "sqrt": false, "nested-24": false} {
		pl, err := plan.Named(name, p.Graph.Layers)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Lower(p, pl)
		if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "a segment cannot cross the decoder embedding")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A checkpoint inside another's region keeps nothing in forward, but its call holds its arguments until it returns: the
// gate's projection lives through the activation behind it. Measured with PyTorch 2.14.1 on meta (tools/measure.py with
// torch.utils.checkpoint around both layers and around the second layer's activation and last projection).
func TestArgumentsOfInnerCheckpoint(t *testing.T) {
	s, err := model.LoadHF("granite", []byte(`{"model_type": "granite", "num_hidden_layers": 2, "hidden_size": 54, "num_attention_heads": 3, "vocab_size": 50,
		"max_position_embeddings": 600, "intermediate_size": 144, "num_key_value_heads": 1, "tie_word_embeddings": true, "mlp_bias": true, "hidden_act": "gelu",
		"logits_scaling": 4.0, "residual_multiplier": 0.3, "embedding_multiplier": 2.0}`))
	if err != nil {
		t.Fatal(err)
	}
	s.B, s.S, s.Precision = 1, 33, "fp32"
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	act := &plan.Option{Name: "act", Regions: []plan.Region{{Span: "act"}}}
	tl, err := Judge(Compile(g), &plan.Plan{Nodes: []plan.Node{{First: 0, Last: 1, Segment: true, Inner: []plan.Node{{First: 1, Last: 1, Option: act}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for ph, want := range map[Phase]int64{Forward: 900608, Backward: 1211440} {
		if got := tl.Second.Peak[ph].Bytes; got != want {
			t.Errorf("%v: %d, measured %d", ph, got, want)
		}
	}
}
