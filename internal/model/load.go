package model

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// Load reads a spec document. The error is a Diagnostics with everything that is wrong. name stands in the messages.
func Load(name string, src []byte) (*Spec, error) {
	d, err := ParseDocument(name, src, "spec", "a YAML spec with the keys "+strings.Join(required, ", "))
	if err != nil {
		return nil, err
	}
	return load(newReader(d.r), d.Root)
}

// load reads a spec from its map of keys.
func load(r *reader, root *yaml.Node) (*Spec, error) {
	if root.Kind != yaml.MappingNode {
		r.at(root, "a spec is a map of keys such as L: 12, not %s", kindOf(root))
		return nil, r.diags
	}
	s := &Spec{}
	r.mapping(s, "", root)
	archOf(r, s)
	if len(r.diags) > 0 && r.spec["arch"] != nil && classOf(s.Arch) == nil {
		return nil, r.sorted() // without the arch no default is known
	}
	r.missing(root)
	sound := r.placeholders(s)
	everywhere(r, s)
	fill(s, r.given)
	if sound {
		unvaried(r, s)
	}
	for _, p := range problems(s) {
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

// SpecIn reads a spec that is part of a document; nil if something is wrong with it.
func SpecIn(d *Document, n *yaml.Node) *Spec {
	before := d.r.diags
	d.r.diags = nil
	s, err := load(newReader(d.r), n)
	d.r.diags = append(before, d.r.diags...)
	if err != nil {
		return nil
	}
	return s
}

// archOf checks the name of the class.
func archOf(r *reader, s *Spec) {
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

// everywhere lets a dropout that is one number reach inside the MLP, where the class drops there (T5, torch-encoder).
func everywhere(r *reader, s *Spec) {
	v, c := r.spec["dropout"], classOf(s.Arch)
	if v != nil && v.Kind == yaml.ScalarNode && c != nil && c.honours("dropout.mlp") {
		r.spec["dropout.mlp"], s.Dropout.MLP = v, s.Dropout.Residual
	}
}

// Wrong is what only the caller can see is wrong with a key of a spec: a strategy, a plan file.
func Wrong(file string, src []byte, key, text string) Diagnostics {
	r := newReader(newSource(file, src))
	if d, err := ParseDocument(file, src, "spec", "a YAML spec"); err == nil && d.Root.Kind == yaml.MappingNode {
		r = newReader(d.r)
		for i := 0; i+1 < len(d.Root.Content); i += 2 {
			r.spec[d.Root.Content[i].Value] = resolve(d.Root.Content[i+1])
		}
	}
	r.key(key, "%s", text)
	return r.diags
}
