package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Format is a way to write a Document.
type Format string

// The formats of --format.
const (
	Text     Format = "table"
	Markdown Format = "markdown"
	CSV      Format = "csv"
	JSON     Format = "json"
)

// Formats lists them.
var Formats = []Format{Text, Markdown, CSV, JSON}

// ParseFormat finds a format by its name.
func ParseFormat(name string) (Format, error) {
	for _, f := range Formats {
		if string(f) == strings.ToLower(name) {
			return f, nil
		}
	}
	return "", fmt.Errorf("format %q is not one of table, markdown, csv, json", name)
}

// Tone is how good a headline is.
type Tone int

// The tones of a headline.
const (
	Neutral Tone = iota
	Good
	Doubtful
	Bad
)

// Headline is the first line of a document: one word to look for, and the sentence.
type Headline struct {
	Word string
	Tone Tone
	Text string
}

// Fact is one line of a document, name first.
type Fact struct{ Name, Text string }

// Document is a result to be written.
type Document struct {
	Headline Headline
	Facts    []Fact
	Tables   []Table
	// Notes come last, one a line.
	Notes []string
	// Rows is the table that CSV holds.
	Rows Table
	// Data is what JSON holds.
	Data any
}

// Visible replaces control characters: names from files can contain them and would write anywhere on a terminal.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// visible is the document with all its words Visible.
func (d *Document) visible() *Document {
	v := *d
	v.Headline.Text = Visible(d.Headline.Text)
	v.Facts = nil
	for _, f := range d.Facts {
		v.Facts = append(v.Facts, Fact{f.Name, Visible(f.Text)})
	}
	v.Notes = visibleLines(d.Notes)
	v.Tables = slices.Clone(d.Tables)
	for i := range v.Tables {
		v.Tables[i].Title, v.Tables[i].Notes = Visible(v.Tables[i].Title), visibleLines(v.Tables[i].Notes)
	}
	return &v
}

func visibleLines(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = Visible(l)
	}
	return out
}

// Write renders the document. colour is for text alone.
func (d *Document) Write(w io.Writer, f Format, colour bool) error {
	switch f {
	case Markdown:
		return d.visible().markdown(w)
	case CSV:
		return d.Rows.csv(w)
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(d.Data)
	}
	return d.visible().text(w, colour)
}
