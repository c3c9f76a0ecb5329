package document

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

// Source is the text of a document, and what is wrong with it.
type Source struct {
	File  string
	noun  string // what the document is: spec, plan
	want  string // what was expected of an empty one
	lines [][]byte
	Diags Diagnostics
}

// NewSource is a document to be read: its name in diagnostics and its text.
func NewSource(file string, src []byte) *Source {
	return &Source{File: file, lines: bytes.Split(src, []byte("\n"))}
}

// MaxSource is the longest document that is read: a spec is a page, a config.json some kilobytes.
const MaxSource = 4 << 20

// Line reports something wrong at a line and column.
func (r *Source) Line(n, col int, format string, args ...any) {
	d := Diagnostic{File: r.File, Line: n, Col: max(col, 1), Message: fmt.Sprintf(format, args...)}
	if n >= 1 && n <= len(r.lines) {
		d.Source = string(r.lines[n-1])
	}
	r.Diags = append(r.Diags, d)
}

// At reports something wrong at a node.
func (r *Source) At(n *yaml.Node, format string, args ...any) {
	r.Line(n.Line, n.Column, format, args...)
}

// near is the name that a word most likely means, or "". Beyond the reports that are printed nothing is looked for, so that
// a file of thousands of wrong keys is answered at once.
func (r *Source) near(word string, names []string) string {
	if r.Full() {
		return ""
	}
	return nearest.Name(word, names)
}

// Full is true once more is wrong than is printed.
func (r *Source) Full() bool { return len(r.Diags) > printed }

// Sorted are the diagnostics in the order of the text.
func (r *Source) Sorted() Diagnostics {
	slices.SortStableFunc(r.Diags, func(a, b Diagnostic) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	return r.Diags
}

// Unreadable reports a source that cannot be a document at all.
func (r *Source) Unreadable(src []byte, want string) bool {
	whole := func(format string, args ...any) bool {
		r.Diags = append(r.Diags, Diagnostic{File: r.File, Message: fmt.Sprintf(format, args...)})
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
func (r *Source) syntax(err error) {
	var le *yaml.LoadError
	if errors.As(err, &le) && le.Mark.Line > 0 {
		text := le.Message
		if n, col := le.Mark.Line, le.Mark.Column; n <= len(r.lines) && col >= 1 && col <= len(r.lines[n-1]) && r.lines[n-1][col-1] == '\t' {
			text = "a tab, where YAML is indented with blanks"
		}
		r.Line(le.Mark.Line, le.Mark.Column, "not YAML: %s", text)
		return
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	switch {
	case strings.Contains(text, "found multiple"):
		text = "more than one document: a " + r.noun + " file holds one"
	case strings.Contains(text, "no documents"):
		text = "empty: expected " + r.want
	}
	r.Diags = append(r.Diags, Diagnostic{File: r.File, Message: text})
}
