package memory

import (
	"strings"
	"testing"

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
		if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "a segment lies in the encoder (layers 0 to 11) or in the decoder")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
