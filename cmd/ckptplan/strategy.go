package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ckptplan/internal/document"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/study"
)

// strategyOptions are the strategies of an estimate.
type strategyOptions struct {
	names []string
}

// planFiles reads the plan files among the names, before the model that they are for is known.
func (o *strategyOptions) planFiles() (map[string]*plan.File, error) {
	files := map[string]*plan.File{}
	for _, name := range o.names {
		if !isPlanFile(name) {
			continue
		}
		f, err := readPlan(name)
		if err != nil {
			return nil, err
		}
		files[name] = f
	}
	return files, nil
}

// isPlanFile is true for what is a path rather than a strategy's name.
func isPlanFile(name string) bool {
	return strings.ContainsAny(name, `/\`) || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// unreadable says why a plan file that was named cannot be read.
func unreadable(name string, err error) error {
	return usagef("plan file %s: %w", name, cause(err))
}

func readPlan(name string) (*plan.File, error) {
	src, err := readInput(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	return plan.Read(name, src)
}

// choices are the strategies to estimate: those that were named, else the spec's, else a comparison.
func (o *strategyOptions) choices(s *spec.Spec, file string, files map[string]*plan.File) ([]study.Choice, error) {
	layers := plan.LayersOf(s)
	names := o.names
	common := false
	switch {
	case len(names) == 1 && strings.EqualFold(names[0], "all"):
		names, common = study.EveryStrategy(layers), true
	case len(names) == 0 && s.Checkpoint != "" && s.Checkpoint != "none":
		return specChoice(s, file)
	case len(names) == 0:
		names, common = study.Compared, true
	}
	var out []study.Choice
	for _, name := range names {
		c := study.Choice{Name: name, Optional: common}
		if f := files[name]; f != nil {
			if err := f.Match(s); err != nil {
				return nil, &inputError{fmt.Errorf("%s: %w", name, err)}
			}
			c.Plan = &f.Plan
		} else {
			p, err := plan.Named(name, layers)
			switch {
			case err != nil && common:
				continue // every-2 of a single layer
			case err != nil:
				return nil, &usageError{err}
			}
			c.Name, c.Plan = p.Strategy, p
		}
		out = append(out, c)
	}
	return out, nil
}

// specChoice is the strategy, or the plan file, that the spec itself names. file is the spec's own, where there is one.
func specChoice(s *spec.Spec, file string) ([]study.Choice, error) {
	c := study.Choice{Name: s.Checkpoint}
	if isPlanFile(s.Checkpoint) {
		f, err := readPlan(s.Checkpoint)
		switch {
		case err == nil:
			err = f.Match(s)
		case is[document.Diagnostics](err): // whose text may be of any file on this machine: a spec can come from anyone
			err = fmt.Errorf("%[1]s is no plan file: `ckptplan show %[1]s` says why", s.Checkpoint)
		}
		if err != nil {
			return nil, wrongCheckpoint(file, err)
		}
		c.Plan = &f.Plan
		return []study.Choice{c}, nil
	}
	p, err := plan.Named(s.Checkpoint, plan.LayersOf(s))
	if err != nil {
		return nil, wrongCheckpoint(file, err)
	}
	c.Name, c.Plan = p.Strategy, p
	return []study.Choice{c}, nil
}

// wrongCheckpoint says where a spec names a strategy or a plan file that cannot be used.
func wrongCheckpoint(file string, err error) error {
	src, unread := readInput(file)
	if unread != nil {
		return &inputError{fmt.Errorf("checkpoint: %w", err)}
	}
	return model.Wrong(file, src, "checkpoint", "checkpoint: "+err.Error())
}
