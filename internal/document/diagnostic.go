package document

import (
	"fmt"
	"strings"
)

// Diagnostic is one thing wrong with an input file, at a place in it.
type Diagnostic struct {
	File      string
	Line, Col int    // 1-based; 0: the file as a whole
	Message   string // what is wrong, and the accepted form
	Source    string // the line, as written
}

// excerptWidth is how much of a long line (a config.json without line breaks) an excerpt shows.
const excerptWidth = 100

// String is file:line:col: message, then the line with a caret under the place.
func (d Diagnostic) String() string {
	if d.Line == 0 {
		return d.File + ": " + d.Message
	}
	head := fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Col, d.Message)
	line := []rune(strings.TrimRight(d.Source, " \t\r"))
	caret := min(d.Col-1, len(line))
	indent := 0
	for indent < caret && (line[indent] == ' ' || line[indent] == '\t') {
		indent++
	}
	from := max(indent, caret-excerptWidth/2)
	to := min(len(line), from+excerptWidth)
	if from >= to {
		return head
	}
	text := strings.Map(printable, string(line[from:to]))
	return head + "\n    " + text + "\n    " + strings.Repeat(" ", caret-from) + "^"
}

// printable keeps terminal control characters out of an excerpt, one column a rune.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || reorders(r) {
		return ' '
	}
	return r
}

// printed is how many diagnostics of a file are shown: who reads them corrects the first ones first.
const printed = 10

// Diagnostics is everything wrong with one input file, in the order of the file. Load and LoadHF return it as their
// error.
type Diagnostics []Diagnostic

func (ds Diagnostics) Error() string {
	lines := make([]string, min(len(ds), printed))
	for i := range lines {
		lines[i] = ds[i].String()
	}
	if more := len(ds) - printed; more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more", ds[0].File, more))
	}
	return strings.Join(lines, "\n")
}
