package gpu

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ckptplan/configs"
	"ckptplan/internal/nearest"
)

// UnknownError is returned for a name that no data sheet has.
type UnknownError struct {
	Name string
	// Near are the names that the user may have meant, the nearest first; without one, all names.
	Near []string
	// All is true if nothing was near and Near holds every name.
	All bool
}

func (e *UnknownError) Error() string {
	if e.All {
		return fmt.Sprintf("no data sheet for GPU %q; known are %s", e.Name, strings.Join(e.Near, ", "))
	}
	return fmt.Sprintf("no data sheet for GPU %q; did you mean %s?", e.Name, strings.Join(e.Near, " or "))
}

// AmbiguousError is returned for a name that several cards share. Their memory or speed differs, so none is chosen.
type AmbiguousError struct {
	Name    string
	Matches []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("GPU %q may be any of %s; name one", e.Name, strings.Join(e.Matches, ", "))
}

// Lookup finds the data sheet of a card by its name, as people or the CUDA driver write it. Case, blanks, hyphens and
// the words NVIDIA, GeForce, Tesla, AMD and Instinct do not count, nor does RTX or GTX at the beginning; 80G is 80GB, and
// words may be left out if one card remains ("h200 141", "a100 pcie 40"). A name in full wins over one in part. The error is an *UnknownError or an *AmbiguousError.
//
// A full name that is also the name of a sheet's file needs only that file.
func Lookup(name string) (*Sheet, error) {
	if s, err := ownFile(configs.GPUs, "gpus", name); s != nil || err != nil {
		return s, err
	}
	return lookup(embedded(), name)
}

// ownFile reads the data sheet whose file is named so; nil if there is none. Files are named after their cards, and no
// two cards share a name, so lookup among all sheets would find the same one.
func ownFile(files fs.FS, folder, name string) (*Sheet, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, err
	}
	key := joined(name)
	for _, e := range entries {
		if joined(strings.TrimSuffix(e.Name(), ".yaml")) != key {
			continue
		}
		src, err := fs.ReadFile(files, path.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		return Load(e.Name(), src)
	}
	return nil, nil
}

func lookup(sheets []*Sheet, name string) (*Sheet, error) {
	var full, part []*Sheet
	key, words := joined(name), words(name)
	for _, s := range sheets {
		if slices.ContainsFunc(s.names(), func(n string) bool { return joined(n) == key }) {
			full = append(full, s)
		}
		if s.covers(words) {
			part = append(part, s)
		}
	}
	found := full
	if len(full) == 0 {
		found = part
	}
	switch len(found) {
	case 0:
		near, all := closest(sheets, key)
		return nil, &UnknownError{Name: name, Near: near, All: all}
	case 1:
		return found[0], nil
	}
	e := &AmbiguousError{Name: name}
	for _, s := range found {
		e.Matches = append(e.Matches, s.Name)
	}
	return nil, e
}

// names are the sheet's name and its aliases.
func (s *Sheet) names() []string { return append([]string{s.Name}, s.Aliases...) }

// covers is true if each of the words is in one of the sheet's names, or is the size it is sold as. A number stands
// for itself or for that many GB.
func (s *Sheet) covers(query []string) bool {
	if len(query) == 0 {
		return false
	}
	known := map[string]bool{fmt.Sprintf("%dgb", s.SoldAs/1e9): true}
	for _, n := range s.names() {
		for _, w := range words(n) {
			known[w] = true
		}
	}
	for _, w := range query {
		if !known[w] && !known[w+"gb"] {
			return false
		}
	}
	return true
}

// vendor are words that do not tell cards apart, and series those that do not at the beginning of a name.
var (
	vendor = []string{"nvidia", "geforce", "tesla", "amd", "instinct"}
	series = []string{"rtx", "gtx"}
)

// words cuts a name at everything but letters and digits, in lower case, without the words of vendor and series; 80g is
// 80gb.
func words(name string) []string {
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	var out []string
	for _, w := range fields {
		if slices.Contains(vendor, w) {
			continue
		}
		if size := strings.TrimSuffix(strings.TrimSuffix(w, "ib"), "b"); strings.HasSuffix(size, "g") && digits(strings.TrimSuffix(size, "g")) {
			w = size + "b"
		}
		out = append(out, w)
	}
	for _, prefix := range series {
		if len(out) == 0 || !strings.HasPrefix(out[0], prefix) {
			continue
		}
		if out[0] = strings.TrimPrefix(out[0], prefix); out[0] == "" {
			out = out[1:]
		}
	}
	return out
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// joined is the name as one word: RTX-4090, 4090 and "NVIDIA GeForce RTX 4090" are the same.
func joined(name string) string { return strings.Join(words(name), "") }

// closest are up to three names within two edits of key, or else all. Of equally near ones, those that begin like key
// come first.
func closest(sheets []*Sheet, key string) (names []string, all bool) {
	type candidate struct {
		name   string
		edits  int
		common int // letters of the beginning that agree
	}
	var near []candidate
	for _, s := range sheets {
		best := candidate{s.Name, len(key), 0} // as many edits as letters: nothing in common
		for _, n := range s.names() {
			c := candidate{s.Name, nearest.Edits(key, joined(n)), common(key, joined(n))}
			if c.edits < best.edits || (c.edits == best.edits && c.common > best.common) {
				best = c
			}
		}
		if best.edits <= 2 && best.common > 0 {
			near = append(near, best)
		}
		names = append(names, s.Name)
	}
	if len(near) == 0 {
		return names, true
	}
	slices.SortStableFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.edits, b.edits), cmp.Compare(b.common, a.common))
	})
	names = nil
	for _, c := range near[:min(3, len(near))] {
		names = append(names, c.name)
	}
	return names, false
}

// common is the length of the beginning that a and b share.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
