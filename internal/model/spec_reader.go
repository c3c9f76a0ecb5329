package model

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/nearest"
)

// reader reads the keys of a spec and remembers where each stands.
type reader struct {
	*source
	spec map[string]*yaml.Node // the value node by key of the spec; a document's section counts too
	bad  map[string]bool       // keys whose value was refused already
}

func newReader(s *source) *reader {
	return &reader{source: s, spec: map[string]*yaml.Node{}, bad: map[string]bool{}}
}

func (r *reader) given(key string) bool { return r.spec[key] != nil }

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
