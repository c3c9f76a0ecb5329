package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckptplan/internal/document"
	"ckptplan/internal/model"
	"ckptplan/internal/nearest"
)

// settingsFile is a config file with the places of its keys, so that all errors are reported at once.
type settingsFile struct {
	src []byte
	doc *document.Document          // nil without a file, and for an empty one
	at  map[string]document.Setting // by flag
}

// readSettings reads a config file, "" for none. Keys are flags of some command, each once, with a value or, where the
// flag takes several, a list.
func readSettings(root *cobra.Command, file string) (*settingsFile, error) {
	s := &settingsFile{at: map[string]document.Setting{}}
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
	if s.doc, err = document.ParseDocument(file, s.src, "config", "settings such as budget: 24GB"); err != nil {
		return nil, err
	}
	known := settings(root)
	for _, x := range s.doc.Settings("budget: 24GB") {
		flag := strings.ReplaceAll(x.Key, "_", "-")
		first, twice := s.at[flag]
		switch {
		case !slices.Contains(known, flag):
			s.unknown(x, flag, known)
		case twice:
			s.doc.WrongKey(x, "%s is given twice (first in line %d)", x.Key, first.Line())
		case x.Map, x.List && !several(root, flag):
			s.doc.WrongValue(x, "%s takes one value", x.Key)
		default:
			s.at[flag] = x
		}
	}
	return s, s.err()
}

// unknown reports a key that is not a flag, with the one that it most likely means.
func (s *settingsFile) unknown(x document.Setting, flag string, known []string) {
	near := strings.TrimPrefix(model.FlagOf(flag), "--")
	if near == "" {
		near = nearest.Name(flag, known)
	}
	if near == "" {
		s.doc.WrongKey(x, "unknown key %q: known are %s", x.Key, strings.Join(known, ", "))
		return
	}
	s.doc.WrongKey(x, "unknown key %q (did you mean %q?)", x.Key, near)
}

// wrong reports a value that a flag refused.
func (s *settingsFile) wrong(flag string, err error) {
	if x, ok := s.at[flag]; ok {
		s.doc.WrongValue(x, "%v", err)
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
