package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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

// Headline is the first line of a document: a word for those who look for one, and the sentence.
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

// Write renders the document. colour is for text alone.
func (d *Document) Write(w io.Writer, f Format, colour bool) error {
	switch f {
	case Markdown:
		return d.markdown(w)
	case CSV:
		return d.Rows.csv(w)
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(d.Data)
	}
	return d.text(w, colour)
}
