package model

import (
	"slices"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// linearNames are the names that LoRA targets may have.
func linearNames(s *spec.Spec) []string {
	c := class.Of(s.Arch)
	switch {
	case c == nil:
		return nil
	case c.LinearsOf != nil:
		return c.LinearsOf(s)
	}
	return c.Linears
}

// TakesLoRA is true for a model that adapters of rank r can be added to.
func TakesLoRA(s *spec.Spec, r int) bool {
	names, c := linearNames(s), class.Of(s.Arch)
	return r <= s.H && len(names) > 0 && !slices.ContainsFunc(c.Targets, func(t string) bool { return !slices.Contains(names, t) })
}

// expandTargets replaces all-linear by the names of the arch's layers.
func expandTargets(s *spec.Spec, targets []string) []string {
	if len(targets) == 1 && nearest.Fold(targets[0]) == "all-linear" {
		return slices.Clone(linearNames(s))
	}
	return targets
}
