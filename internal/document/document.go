// Package document reads YAML and JSON strictly: unknown and repeated keys, wrong types and second documents are
// Diagnostics with file:line:col, the accepted form and the nearest right name, all of them at once. It knows nothing of
// models; specs, plan files, data sheets and settings are read with it.
package document

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Document is a YAML file under strict reading: specs are read through it, and so is every other file of ckptplan that
// people edit. Its methods collect what is wrong, each at its place; Err returns it all.
type Document struct {
	Root *yaml.Node
	R    *Source
}

// ParseDocument parses the one document of src. noun says what the file holds (spec, plan), want what is expected of
// an empty one. The error is a Diagnostics.
func ParseDocument(name string, src []byte, noun, want string) (*Document, error) {
	r := NewSource(name, src)
	r.noun, r.want = noun, want
	if r.Unreadable(src, want) {
		return nil, r.Diags
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		r.syntax(err)
		return nil, r.Diags
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	if r.unbounded(root) || r.hidden(root) {
		return nil, r.Diags
	}
	return &Document{Root: root, R: r}, nil
}

// Err is everything that was reported, in the order of the file, or nil. Of several reports at one place the first
// stands: the others follow from it.
func (d *Document) Err() error {
	if len(d.R.Diags) == 0 {
		return nil
	}
	return slices.CompactFunc(d.R.Sorted(), func(a, b Diagnostic) bool { return a.Line == b.Line && a.Col == b.Col })
}

// At reports something wrong at a node.
func (d *Document) At(n *yaml.Node, format string, args ...any) { d.R.At(n, format, args...) }

// Map calls visit for each key of a map. Keys that are not in names, repeated keys, and a node that is no map are
// reported; form is an example of the map.
func (d *Document) Map(where string, n *yaml.Node, form string, names []string, visit func(key string, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.At(n, "%s is a map such as %s, not %s", where, form, KindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], Resolve(n.Content[i+1])
		switch first, dup := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode:
			d.At(k, "a key is a word, not %s", KindOf(k))
		case dup:
			d.At(k, "%s is given twice (first in line %d)", k.Value, first)
		case !slices.Contains(names, k.Value):
			if near := d.R.near(k.Value, names); near != "" {
				d.At(k, "unknown key %q (did you mean %q?)", k.Value, near)
			} else {
				d.At(k, "unknown key %q: known are %s", k.Value, strings.Join(names, ", "))
			}
		default:
			seen[k.Value] = k.Line
			visit(k.Value, v)
		}
	}
}

// List calls visit for each element of a list; form is an example of the list.
func (d *Document) List(where string, n *yaml.Node, form string, visit func(v *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		d.At(n, "%s is a list such as %s, not %s", where, form, KindOf(n))
		return
	}
	for _, e := range n.Content {
		visit(Resolve(e))
	}
}

// Count reads a whole number of at least low.
func (d *Document) Count(where string, n *yaml.Node, low int) int {
	return d.R.Count(where, low, n)
}

// Int64 reads a whole number from 0: bytes, nanoseconds.
func (d *Document) Int64(where string, n *yaml.Node) int64 {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!int" {
		if d.R.octal(where, n) {
			return 0
		}
		if x, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64); err == nil && x >= 0 {
			return x
		}
	}
	d.At(n, "%s: %s, but it is a whole number of at least 0", where, Shown(n))
	return 0
}

// Real reads a number of at least 0.
func (d *Document) Real(where string, n *yaml.Node) float64 {
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") {
		x, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
		if err == nil && x >= 0 && !math.IsInf(x, 1) {
			return x
		}
	}
	d.At(n, "%s: %s, but it is a number of at least 0", where, Shown(n))
	return 0
}

// Truth reads true or false.
func (d *Document) Truth(where string, n *yaml.Node) bool { return d.R.Truth(where, n) }

// Word reads a word, one of enum unless that is nil.
func (d *Document) Word(where string, n *yaml.Node, enum []string) string {
	return d.R.Word(where, n, func(text string) (string, string) { return Chosen(where, text, enum) })
}
