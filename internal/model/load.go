package model

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxSource is the longest document that is read: a spec is a page, a config.json some kilobytes.
const maxSource = 4 << 20

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
	if len(r.diags) > 0 && r.spec["arch"] != nil && !slices.Contains(archs, s.Arch) {
		return nil, r.sorted() // without the arch no default is known
	}
	r.missing(root)
	sound := r.placeholders(s)
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
	case len(src) > maxSource:
		return whole("%d bytes: too large for %s", len(src), want)
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
		r.line(le.Mark.Line, le.Mark.Column, "not YAML: %s", le.Message)
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
		alias = nearest(k.Value, names)
	}
	if alias == "" && in == "" {
		alias = aliases[nearest(k.Value, aliasNames())]
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

// shorthand reads dropout: 0.1 (embedding, attention and residual alike) and bias: true.
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

// value reads one value of the field's type.
func (r *reader) value(s *Spec, f *field, v *yaml.Node) {
	before := len(r.diags)
	switch p := f.ptr(s).(type) {
	case *int:
		*p = r.count(f, v)
	case *float64:
		*p = r.real(f, v)
	case *bool:
		*p = r.truth(f, v)
	case *string:
		*p = r.word(f, v)
	case *Precision:
		*p = Precision(r.word(f, v))
	case *[]string:
		*p = nil
		for _, e := range r.list(f, v) {
			*p = append(*p, r.word(f, e))
		}
	case *[]int:
		*p = nil
		for _, e := range r.list(f, v) {
			*p = append(*p, r.count(f, e))
		}
	}
	if len(r.diags) > before {
		r.bad[f.key] = true
	}
}

func (r *reader) count(f *field, v *yaml.Node) int {
	form := "a whole number of at least " + strconv.Itoa(f.low)
	if v.Kind != yaml.ScalarNode {
		r.at(v, "%s is %s, not %s", f.key, form, kindOf(v))
		return 0
	}
	switch v.Tag {
	case "!!int":
		n, err := strconv.ParseInt(strings.ReplaceAll(v.Value, "_", ""), 0, 64)
		switch {
		case err != nil || n > math.MaxInt32*1024:
			r.at(v, "%s: %s is out of range", f.key, v.Value)
		case n < int64(f.low):
			r.at(v, "%s: %d, but it is %s", f.key, n, form)
		}
		return int(n)
	case "!!float":
		x, err := strconv.ParseFloat(strings.ReplaceAll(v.Value, "_", ""), 64)
		if err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<31 {
			r.at(v, "%s: %s is a real number: write %.0f", f.key, v.Value, x)
		} else {
			r.at(v, "%s: %s, but it is %s", f.key, v.Value, form)
		}
	case "!!bool":
		r.at(v, "%s: %s is a truth value, but it is %s", f.key, v.Value, form)
	case "!!null":
		r.at(v, "%s has no value: it is %s", f.key, form)
	default:
		if n, ok := spelledCount(v.Value); ok {
			r.at(v, "%s: %q is a word: write %d", f.key, v.Value, n)
		} else {
			r.at(v, "%s: %q, but it is %s", f.key, v.Value, form)
		}
	}
	return 0
}

// spelledCount reads the counts that people write as words: "4096", 4,096, 8k (8192: sizes of models are powers of
// two), 32K, 128Ki, 1M.
func spelledCount(s string) (int64, bool) {
	digits := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), ",", ""), "_", "")
	scale := int64(1)
	low := strings.TrimSuffix(strings.ToLower(digits), "i")
	if cut, ok := strings.CutSuffix(low, "k"); ok {
		low, scale = cut, 1<<10
	} else if cut, ok := strings.CutSuffix(low, "m"); ok {
		low, scale = cut, 1<<20
	}
	n, err := strconv.ParseInt(strings.TrimSpace(low), 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt32 {
		return 0, false
	}
	return n * scale, true
}

func (r *reader) real(f *field, v *yaml.Node) float64 {
	form := [...]string{"a number from 0 to below 1", "a number above 0, at most 1", "a number above 0"}[f.span]
	if v.Kind != yaml.ScalarNode {
		r.at(v, "%s is %s, not %s", f.key, form, kindOf(v))
		return 0
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(v.Value, "_", ""), 64)
	ok := err == nil && (v.Tag == "!!int" || v.Tag == "!!float") && !math.IsInf(x, 0)
	switch f.span {
	case probability:
		ok = ok && x >= 0 && x < 1
	case share:
		ok = ok && x > 0 && x <= 1
	case positive:
		ok = ok && x > 0
	}
	if !ok {
		r.at(v, "%s: %s, but it is %s", f.key, shown(v), form)
		return 0
	}
	return x
}

func (r *reader) truth(f *field, v *yaml.Node) bool {
	if v.Kind == yaml.ScalarNode && (v.Tag == "!!bool") {
		switch strings.ToLower(v.Value) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	r.at(v, "%s: %s, but it is true or false", f.key, shown(v))
	return false
}

func (r *reader) word(f *field, v *yaml.Node) string {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" || v.Value == "" {
		r.at(v, "%s is a word, not %s", f.key, kindOf(v))
		return ""
	}
	if f.enum == nil {
		return v.Value
	}
	w, problem := choose(f, v.Value)
	if problem != "" {
		r.at(v, "%s", problem)
	}
	return w
}

func (r *reader) list(f *field, v *yaml.Node) []*yaml.Node {
	if v.Kind != yaml.SequenceNode {
		r.at(v, "%s is a list such as [%s], not %s", f.key, map[bool]string{true: "a, b", false: "0, 1"}[f.key != "moe.dense_layers"], kindOf(v))
		return nil
	}
	elements := make([]*yaml.Node, len(v.Content))
	for i, e := range v.Content {
		elements[i] = resolve(e)
	}
	return elements
}

// synonyms are other spellings of accepted words: PyTorch's, Hugging Face's and Lightning's names for the same thing.
var synonyms = map[string]map[string]string{
	"dtype": {
		"float32": "fp32", "float": "fp32", "32-true": "fp32", "bfloat16": "bf16", "bf16-true": "bf16", "float16": "fp16",
		"half": "fp16", "16-true": "fp16", "bf16-mixed": "amp-bf16", "16-mixed": "amp-fp16",
	},
	"train.lora.dtype": {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"},
	"attention":        {"flash-attention-2": "flash2", "flash-2": "flash2"},
	"activation":       {"gelu-pytorch-tanh": "gelu_tanh", "swish": "silu"},
}

// choose is the accepted word that text spells (case, hyphens and underscores do not matter), or what to say.
func choose(f *field, text string) (word, problem string) {
	w := fold(text)
	if s, ok := synonyms[f.key][w]; ok {
		return s, ""
	}
	for _, e := range f.enum {
		if w == fold(e) {
			return e, ""
		}
	}
	known := strings.Join(f.enum, ", ")
	switch {
	case f.key == "attention" && w == "auto":
		return "", "attention: auto names no kernel, and the kernel decides whether S×S scores exist: write one of " + known
	case f.key == "attention" && strings.HasPrefix(w, "flash"):
		return "", fmt.Sprintf("attention: %s is not one of %s (did you mean \"sdpa\", which takes PyTorch's flash kernel, or \"flash2\", the flash-attn package?)", text, known)
	case strings.HasSuffix(f.key, "dtype") && (strings.HasPrefix(w, "fp8") || strings.HasPrefix(w, "float8") || strings.HasPrefix(w, "int") || strings.HasPrefix(w, "nf4") || strings.HasPrefix(w, "fp4")):
		return "", fmt.Sprintf("%s: %s is not modelled: it is one of %s", f.key, text, known)
	case f.key == "arch":
		return "", notModelled("arch", text, f.enum)
	}
	problem = fmt.Sprintf("%s: %q is not one of %s", f.key, text, known)
	if n := nearest(text, f.enum); n != "" {
		problem += fmt.Sprintf(" (did you mean %q?)", n)
	}
	return "", problem
}

func resolve(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 8; i++ {
		n = n.Alias
	}
	return n
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" || n.Value == "" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

// shown is a scalar as written, or what kind of node it is.
func shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Value != "" && n.Tag != "!!str" {
		return n.Value
	}
	return kindOf(n)
}
