package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"ckptplan/internal/model"
	"ckptplan/internal/nearest"
)

// settingsFile is a config file with the places of its keys, so that everything wrong with it is told at once.
type settingsFile struct {
	src []byte
	doc *model.Document       // nil without a file, and for one with nothing in it
	at  map[string]*yaml.Node // the value of a flag
}

// readSettings reads a config file, "" for none. Keys are flags of some command, each once, with a value or, where the
// flag takes several, a list.
func readSettings(root *cobra.Command, file string) (*settingsFile, error) {
	s := &settingsFile{at: map[string]*yaml.Node{}}
	if file == "" {
		return s, nil
	}
	var err error
	if s.src, err = readInput(file); err != nil {
		return nil, &inputError{err}
	}
	if blank(s.src) {
		return s, nil
	}
	if s.doc, err = model.ParseDocument(file, s.src, "config", "settings such as budget: 24GB"); err != nil {
		return nil, err
	}
	n := s.doc.Root
	if n.Kind != yaml.MappingNode {
		s.doc.At(n, "a config file is a map of flags such as budget: 24GB")
		return s, s.err()
	}
	known := settings(root)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		flag := strings.ReplaceAll(k.Value, "_", "-")
		if v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		switch first := s.at[flag]; {
		case !slices.Contains(known, flag):
			s.unknown(k, flag, known)
		case first != nil:
			s.doc.At(k, "%s is given twice (first in line %d)", k.Value, first.Line)
		case v.Kind == yaml.MappingNode, v.Kind == yaml.SequenceNode && !several(root, flag):
			s.doc.At(v, "%s takes one value", k.Value)
		default:
			s.at[flag] = v
		}
	}
	return s, s.err()
}

// unknown reports a key that is no flag, with the one that it most likely means.
func (s *settingsFile) unknown(k *yaml.Node, flag string, known []string) {
	near := strings.TrimPrefix(model.FlagOf(flag), "--")
	if near == "" {
		near = nearest.Name(flag, known)
	}
	if near == "" {
		s.doc.At(k, "unknown key %q: known are %s", k.Value, strings.Join(known, ", "))
		return
	}
	s.doc.At(k, "unknown key %q (did you mean %q?)", k.Value, near)
}

// wrong reports a value that a flag refused.
func (s *settingsFile) wrong(flag string, err error) {
	if n := s.at[flag]; n != nil {
		s.doc.At(n, "%v", err)
	}
}

// err is all that was reported, or nil.
func (s *settingsFile) err() error {
	if s.doc == nil {
		return nil
	}
	return s.doc.Err()
}

// several is true for a flag that takes a list.
func several(root *cobra.Command, flag string) (list bool) {
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Value.(pflag.SliceValue); ok && f.Name == flag {
				list = true
			}
		})
	}
	return list
}

// blank is true for a file of comments and empty lines.
func blank(src []byte) bool {
	for line := range bytes.Lines(src) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			return false
		}
	}
	return true
}
