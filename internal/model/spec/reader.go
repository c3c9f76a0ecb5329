package spec

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
	"ckptplan/internal/nearest"
)

// Reader reads the keys of a spec and remembers where each stands.
type Reader struct {
	*document.Source
	Spec map[string]*yaml.Node // the value node by key of the spec; a document's section counts too
	Bad  map[string]bool       // keys whose value was refused already
}

// NewReader reads the keys of a spec from a document.
func NewReader(s *document.Source) *Reader {
	return &Reader{Source: s, Spec: map[string]*yaml.Node{}, Bad: map[string]bool{}}
}

// Given is true for a key that the document sets.
func (r *Reader) Given(key string) bool { return r.Spec[key] != nil }

// Key reports at the value of a key of the spec, or at its section, or at the start of the document.
func (r *Reader) Key(key, format string, args ...any) {
	for k := key; k != ""; {
		if n := r.Spec[k]; n != nil {
			r.At(n, format, args...)
			return
		}
		k = k[:max(0, strings.LastIndexByte(k, '.'))]
	}
	r.Line(1, 1, format, args...)
}

// Mapping reads the keys of one section.
func (r *Reader) Mapping(s *Spec, in string, n *yaml.Node) {
	OpenSection(s, in)
	names := children(in)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], document.Resolve(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.At(k, "a key is a word, not %s", document.KindOf(k))
			continue
		}
		name := k.Value
		if in == "" && name == "precision" {
			name = "dtype"
		}
		if first, dup := seen[name]; dup {
			r.At(k, "%s is given twice (first in line %d)", k.Value, first)
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
		r.Spec[key] = v
		switch {
		case section(key) && v.Kind == yaml.ScalarNode && r.shorthand(s, key, v):
		case section(key) && v.Kind != yaml.MappingNode:
			r.At(v, "%s is a map such as %s, not %s", key, mapForm(key), document.KindOf(v))
		case section(key):
			r.Mapping(s, key, v)
		default:
			r.Value(s, FieldOf(key), v)
		}
	}
	if first, ok := seen["untied"]; ok && in == "" && seen["tied"] != 0 {
		r.Line(max(first, seen["tied"]), 1, "tied and untied are given together: write one of tied: true, tied: false")
	}
}

// unknown reports a key that the spec does not have, with the name it most likely stands for.
func (r *Reader) unknown(in string, k, v *yaml.Node, names []string) {
	full := k.Value
	if in != "" {
		full = in + "." + k.Value
	}
	if r.Full() {
		r.At(k, "unknown key %q", full)
		return
	}
	alias := Aliases[strings.ReplaceAll(strings.ToLower(k.Value), "-", "_")]
	if alias == "" || (in != "" && !slices.Contains(names, alias)) {
		alias = nearest.Name(k.Value, names)
	}
	if alias == "" && in == "" {
		alias = Aliases[nearest.Name(k.Value, aliasNames())]
	}
	if alias == "" {
		r.At(k, "unknown key %q: known are %s", full, strings.Join(names, ", "))
		return
	}
	r.At(k, "unknown key %q (did you mean %q?)", full, alias)
	key, _, _ := strings.Cut(alias, ":")
	if in != "" {
		key = in + "." + key
	}
	if r.Spec[key] == nil {
		r.Spec[key], r.Bad[key] = v, true // not missing: misspelt
	}
}

// Missing reports the required keys that are absent.
func (r *Reader) Missing(root *yaml.Node) {
	var absent []string
	for _, k := range Required {
		if !r.Given(k) {
			absent = append(absent, k)
		}
	}
	if len(absent) > 0 {
		r.Line(max(root.Line, 1), 1, "missing %s: a spec needs %s", strings.Join(absent, ", "), strings.Join(Required, ", "))
	}
}

// Placeholders puts 1 where a required count is absent or refused, so that what is left can be checked. It is false if
// there was one: then sizes say nothing about each other.
func (r *Reader) Placeholders(s *Spec) bool {
	sound := true
	for _, p := range []*int{&s.L, &s.S, &s.H, &s.B, &s.Heads} {
		if *p < 1 {
			*p = 1
			sound = false
		}
	}
	return sound && !slices.ContainsFunc(Required, func(k string) bool { return r.Bad[k] || !r.Given(k) })
}

// shorthand reads dropout: 0.1 (embedding, attention and residual alike; see everywhere) and bias: true.
func (r *Reader) shorthand(s *Spec, key string, v *yaml.Node) bool {
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
		f := *FieldOf(key + "." + name)
		r.Spec[f.Key] = v
		before := len(r.Diags)
		r.Value(s, &f, v)
		if len(r.Diags) > before {
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
