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
