package model

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
)

// Load reads a spec document. The error is a Diagnostics with everything that is wrong. name stands in the messages.
func Load(name string, src []byte) (*spec.Spec, error) {
	d, err := document.ParseDocument(name, src, "spec", "a YAML spec with the keys "+strings.Join(spec.Required, ", "))
	if err != nil {
		return nil, err
	}
	return load(spec.NewReader(d.R), d.Root)
}

// load reads a spec from its map of keys.
func load(r *spec.Reader, root *yaml.Node) (*spec.Spec, error) {
	if root.Kind != yaml.MappingNode {
		r.At(root, "a spec is a map of keys such as L: 12, not %s", document.KindOf(root))
		return nil, r.Diags
	}
	if trainerFile(r.Source, root) {
		return nil, r.Diags
	}
	s := &spec.Spec{}
	r.Mapping(s, "", root)
	if v := r.Spec["weights"]; v != nil && !r.Given("dtype") {
		r.Spec["dtype"], s.Precision = v, dtype.Precision(s.Weights)
	}
	archOf(r, s)
	if len(r.Diags) > 0 && r.Spec["arch"] != nil && class.Of(s.Arch) == nil {
		return nil, r.Sorted() // without the arch no default is known
	}
	r.Missing(root)
	sound := r.Placeholders(s)
	everywhere(r, s)
	fill(s, r.Given)
	if sound {
		unvaried(r, s)
	}
	for _, p := range problems(s) {
		if independent := strings.HasPrefix(p.Key, "parallel."); (sound || independent) && !r.Bad[p.Key] {
			r.Key(p.Key, "%s", p.Text)
		}
	}
	if len(r.Diags) > 0 {
		return nil, r.Sorted()
	}
	if s.Name == "" {
		s.Name = nameOf(r.File)
	}
	s.Defaults = defaultsInWords(s, r.Given)
	s.Warnings = s.Doubts()
	return s, nil
}

// SpecIn reads a spec that is part of a document; nil if something is wrong with it.
func SpecIn(d *document.Document, n *yaml.Node) *spec.Spec {
	before := d.R.Diags
	d.R.Diags = nil
	s, err := load(spec.NewReader(d.R), n)
	d.R.Diags = append(before, d.R.Diags...)
	if err != nil {
		return nil
	}
	return s
}

// archOf checks the name of the class.
func archOf(r *spec.Reader, s *spec.Spec) {
	v := r.Spec["arch"]
	if v == nil || r.Bad["arch"] {
		return
	}
	if c := class.Of(s.Arch); c != nil {
		s.Arch = c.Arch
		return
	}
	r.At(v, "%s", notModelled("arch", s.Arch, class.Archs()))
	r.Bad["arch"] = true
}

// everywhere lets a dropout that is one number reach inside the MLP, where the class drops there (T5, torch-encoder).
func everywhere(r *spec.Reader, s *spec.Spec) {
	v, c := r.Spec["dropout"], class.Of(s.Arch)
	if v != nil && v.Kind == yaml.ScalarNode && c != nil && c.Honours("dropout.mlp") {
		r.Spec["dropout.mlp"], s.Dropout.MLP = v, s.Dropout.Residual
	}
}

// Wrong is what only the caller can see is wrong with a key of a spec: a strategy, a plan file.
func Wrong(file string, src []byte, key, text string) document.Diagnostics {
	r := spec.NewReader(document.NewSource(file, src))
	if d, err := document.ParseDocument(file, src, "spec", "a YAML spec"); err == nil && d.Root.Kind == yaml.MappingNode {
		r = spec.NewReader(d.R)
		for i := 0; i+1 < len(d.Root.Content); i += 2 {
			r.Spec[d.Root.Content[i].Value] = document.Resolve(d.Root.Content[i+1])
		}
	}
	r.Key(key, "%s", text)
	return r.Diags
}
