package model

import (
	"slices"

	"ckptplan/internal/nearest"
)

// linearNames are the names that LoRA targets may have.
func linearNames(s *Spec) []string {
	c := classOf(s.Arch)
	switch {
	case c == nil:
		return nil
	case c.linearsOf != nil:
		return c.linearsOf(s)
	}
	return c.linears
}

// TakesLoRA is true for a model that adapters of rank r can be added to.
func TakesLoRA(s *Spec, r int) bool {
	names, c := linearNames(s), classOf(s.Arch)
	return r <= s.H && len(names) > 0 && !slices.ContainsFunc(c.targets, func(t string) bool { return !slices.Contains(names, t) })
}

// expandTargets replaces all-linear by the names of the arch's layers.
func expandTargets(s *Spec, targets []string) []string {
	if len(targets) == 1 && nearest.Fold(targets[0]) == "all-linear" {
		return slices.Clone(linearNames(s))
	}
	return targets
}
