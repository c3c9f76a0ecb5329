package model

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/nearest"
)

// MaxSource is the longest document that is read: a spec is a page, a config.json some kilobytes.
const MaxSource = 4 << 20

// Load reads a spec document. The error is a Diagnostics with everything that is wrong. name stands in the messages.
func Load(name string, src []byte) (*Spec, error) {
	d, err := ParseDocument(name, src, "spec", "a YAML spec with the keys "+strings.Join(required, ", "))
	if err != nil {
		return nil, err
	}
	return d.r.load(d.Root)
}

// load reads a spec from its map of keys.
func (r *reader) load(root *yaml.Node) (*Spec, error) {
	if root.Kind != yaml.MappingNode {
		r.at(root, "a spec is a map of keys such as L: 12, not %s", kindOf(root))
		return nil, r.diags
	}
	s := &Spec{}
	r.mapping(s, "", root)
	r.arch(s)
	if len(r.diags) > 0 && r.spec["arch"] != nil && classOf(s.Arch) == nil {
		return nil, r.sorted() // without the arch no default is known
	}
	r.missing(root)
	sound := r.placeholders(s)
	r.everywhere(s)
	fill(s, r.given)
	if sound {
		r.unvaried(s)
	}
	for _, p := range s.problems() {
		if independent := strings.HasPrefix(p.key, "parallel."); (sound || independent) && !r.bad[p.key] {
			r.key(p.key, "%s", p.text)
		}
	}
	if len(r.diags) > 0 {
		return nil, r.sorted()
	}
	if s.Name == "" {
		s.Name = nameOf(r.file)
	}
	s.Defaults = defaultsInWords(s, r.given)
	s.Warnings = s.doubts()
	return s, nil
}

// arch checks the name of the class.
func (r *reader) arch(s *Spec) {
	v := r.spec["arch"]
	if v == nil || r.bad["arch"] {
		return
	}
	if c := classOf(s.Arch); c != nil {
		s.Arch = c.arch
		return
	}
	r.at(v, "%s", notModelled("arch", s.Arch, Archs()))
	r.bad["arch"] = true
}

// reader walks the nodes of one document, collects what is wrong and remembers where each key stands.
type reader struct {
	file  string
	noun  string // what the document is: spec, plan
	want  string // what was expected of an empty one
	lines [][]byte
	diags Diagnostics
	spec  map[string]*yaml.Node // the value node by key of the spec; a document's section counts too
	bad   map[string]bool       // keys whose value was refused already
}

func newReader(file string, src []byte) *reader {
	return &reader{file: file, lines: bytes.Split(src, []byte("\n")), spec: map[string]*yaml.Node{}, bad: map[string]bool{}}
}

func (r *reader) given(key string) bool { return r.spec[key] != nil }

func (r *reader) line(n, col int, format string, args ...any) {
	d := Diagnostic{File: r.file, Line: n, Col: max(col, 1), Message: fmt.Sprintf(format, args...)}
	if n >= 1 && n <= len(r.lines) {
		d.Source = string(r.lines[n-1])
	}
	r.diags = append(r.diags, d)
}

func (r *reader) at(n *yaml.Node, format string, args ...any) {
	r.line(n.Line, n.Column, format, args...)
}

// key reports at the value of a key of the spec, or at its section, or at the start of the document.
func (r *reader) key(key, format string, args ...any) {
	for k := key; k != ""; {
		if n := r.spec[k]; n != nil {
			r.at(n, format, args...)
			return
		}
		k = k[:max(0, strings.LastIndexByte(k, '.'))]
	}
	r.line(1, 1, format, args...)
}

func (r *reader) sorted() Diagnostics {
	slices.SortStableFunc(r.diags, func(a, b Diagnostic) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	return r.diags
}

// unreadable reports a source that cannot be a document at all.
func (r *reader) unreadable(src []byte, want string) bool {
	whole := func(format string, args ...any) bool {
		r.diags = append(r.diags, Diagnostic{File: r.file, Message: fmt.Sprintf(format, args...)})
		return true
	}
	switch {
	case len(src) > MaxSource:
		return whole("more than %d MiB: too large for %s", MaxSource>>20, want)
	case bytes.IndexByte(src, 0) >= 0 || !utf8.Valid(src):
		return whole("a binary file, not %s", want)
	case len(bytes.TrimSpace(src)) == 0:
		return whole("empty: expected %s", want)
	}
	return false
}

// syntax reports what the YAML parser refused.
func (r *reader) syntax(err error) {
	var le *yaml.LoadError
	if errors.As(err, &le) && le.Mark.Line > 0 {
		text := le.Message
		if n, col := le.Mark.Line, le.Mark.Column; n <= len(r.lines) && col >= 1 && col <= len(r.lines[n-1]) && r.lines[n-1][col-1] == '\t' {
			text = "a tab, where YAML is indented with blanks"
		}
		r.line(le.Mark.Line, le.Mark.Column, "not YAML: %s", text)
		return
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	switch {
	case strings.Contains(text, "found multiple"):
		text = "more than one document: a " + r.noun + " file holds one"
	case strings.Contains(text, "no documents"):
		text = "empty: expected " + r.want
	}
	r.diags = append(r.diags, Diagnostic{File: r.file, Message: text})
}

// mapping reads the keys of one section.
func (r *reader) mapping(s *Spec, in string, n *yaml.Node) {
	openSection(s, in)
	names := children(in)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolve(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.at(k, "a key is a word, not %s", kindOf(k))
			continue
		}
		name := k.Value
		if in == "" && name == "precision" {
			name = "dtype"
		}
		if first, dup := seen[name]; dup {
			r.at(k, "%s is given twice (first in line %d)", k.Value, first)
			continue
		}
		seen[name] = k.Line
		if !slices.Contains(names, name) {
			r.unknown(in, k, v, names)
			continue
		}
		key := name
		if in != "" {
			key = in + "." + name
		}
		r.spec[key] = v
		switch {
		case section(key) && v.Kind == yaml.ScalarNode && r.shorthand(s, key, v):
		case section(key) && v.Kind != yaml.MappingNode:
			r.at(v, "%s is a map such as %s, not %s", key, mapForm(key), kindOf(v))
		case section(key):
			r.mapping(s, key, v)
		default:
			r.value(s, fieldOf(key), v)
		}
	}
	if first, ok := seen["untied"]; ok && in == "" && seen["tied"] != 0 {
		r.line(max(first, seen["tied"]), 1, "tied and untied are given together: write one of tied: true, tied: false")
	}
}

// unknown reports a key that the spec does not have, with the name it most likely stands for.
func (r *reader) unknown(in string, k, v *yaml.Node, names []string) {
	full := k.Value
	if in != "" {
		full = in + "." + k.Value
	}
	alias := aliases[strings.ReplaceAll(strings.ToLower(k.Value), "-", "_")]
	if alias == "" || (in != "" && !slices.Contains(names, alias)) {
		alias = nearest.Name(k.Value, names)
	}
	if alias == "" && in == "" {
		alias = aliases[nearest.Name(k.Value, aliasNames())]
	}
	if alias == "" {
		r.at(k, "unknown key %q: known are %s", full, strings.Join(names, ", "))
		return
	}
	r.at(k, "unknown key %q (did you mean %q?)", full, alias)
	key, _, _ := strings.Cut(alias, ":")
	if in != "" {
		key = in + "." + key
	}
	if r.spec[key] == nil {
		r.spec[key], r.bad[key] = v, true // not missing: misspelt
	}
}

// missing reports the required keys that are absent.
func (r *reader) missing(root *yaml.Node) {
	var absent []string
	for _, k := range required {
		if !r.given(k) {
			absent = append(absent, k)
		}
	}
	if len(absent) > 0 {
		r.line(max(root.Line, 1), 1, "missing %s: a spec needs %s", strings.Join(absent, ", "), strings.Join(required, ", "))
	}
}

// placeholders puts 1 where a required count is absent or refused, so that what is left can be checked. It is false if
// there was one: then sizes say nothing about each other.
func (r *reader) placeholders(s *Spec) bool {
	sound := true
	for _, p := range []*int{&s.L, &s.S, &s.H, &s.B, &s.Heads} {
		if *p < 1 {
			*p = 1
			sound = false
		}
	}
	return sound && !slices.ContainsFunc(required, func(k string) bool { return r.bad[k] || !r.given(k) })
}

// everywhere lets a dropout that is one number reach inside the MLP, where the class drops there (T5, torch-encoder).
func (r *reader) everywhere(s *Spec) {
	v, c := r.spec["dropout"], classOf(s.Arch)
	if v != nil && v.Kind == yaml.ScalarNode && c != nil && c.honours("dropout.mlp") {
		r.spec["dropout.mlp"], s.Dropout.MLP = v, s.Dropout.Residual
	}
}

// shorthand reads dropout: 0.1 (embedding, attention and residual alike; see everywhere) and bias: true.
func (r *reader) shorthand(s *Spec, key string, v *yaml.Node) bool {
	var names []string
	switch key {
	case "dropout":
		names = []string{"embedding", "attention", "residual"}
	case "bias":
		names = []string{"qkv", "out", "mlp", "norm"}
	default:
		return false
	}
	for _, name := range names {
		f := *fieldOf(key + "." + name)
		r.spec[f.key] = v
		before := len(r.diags)
		r.value(s, &f, v)
		if len(r.diags) > before {
			return true
		}
	}
	return true
}

// mapForm is an example of a section.
func mapForm(key string) string {
	return map[string]string{
		"bias": "{qkv: true}", "dropout": "{attention: 0.1}", "moe": "{experts: 8, top_k: 2}", "image": "{size: 224, patch: 16}",
		"train": "{optimizer: adamw}", "train.lora": "{r: 16}", "parallel": "{tp: 1}",
	}[key]
}
