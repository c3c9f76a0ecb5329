package export

import (
	"errors"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
)

// Text is what makes a target run a file's plan: a Python file for torch, the lines of its settings for any other.
func Text(f *plan.File, t *Target) (string, error) {
	if f.Spec == nil {
		return "", errors.New("the plan file has no spec, so that its model is not known: export a plan that optimize wrote")
	}
	p, err := memory.NewPrograms(f.Spec, false).Kind(f.Kind())
	if err != nil {
		return "", err
	}
	if err := f.Validate(p.Graph.Layers); err != nil {
		return "", err
	}
	if t.Name == "torch" {
		return TorchFile(f, p.Graph)
	}
	return t.Lines(f, p.Graph.Layers)
}
