package model

import (
	"slices"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// linearNames are the linear layers inside the blocks.
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

// targetNames are the names that LoRA targets may have: the linear layers inside the blocks, and the head of a causal language
// model that is computed in one piece.
func targetNames(s *spec.Spec) []string {
	names := linearNames(s)
	if c := class.Of(s.Arch); Chunkable(s) && s.Train.LossChunks <= 1 && s.Train.LoRA.Base == "" {
		return append(slices.Clone(names), c.HeadName())
	}
	return names
}

// expandTargets replaces all-linear by the names of the arch's layers, of which peft leaves the head out; other names may stand
// beside it.
func expandTargets(s *spec.Spec, targets []string) []string {
	all := slices.IndexFunc(targets, func(t string) bool { return nearest.Fold(t) == "all-linear" })
	if all < 0 {
		return targets
	}
	names := slices.Clone(linearNames(s))
	for i, t := range targets {
		if i != all && !slices.Contains(names, t) {
			names = append(names, t)
		}
	}
	return names
}
