package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// cellText escapes text that would end a cell.
var cellText = strings.NewReplacer("|", `\|`, "\n", " ")

// markdown writes the document for a pull request or a wiki.
func (d *Document) markdown(w io.Writer) error {
	var b bytes.Buffer
	if h := d.Headline; h != (Headline{}) {
		fmt.Fprintf(&b, "**%s** %s\n", h.Word, h.Text)
	}
	if b.Len() > 0 && len(d.Facts) > 0 {
		b.WriteByte('\n')
	}
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, f.Text)
	}
	for i := range d.Tables {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		d.Tables[i].markdown(&b)
	}
	listNotes(&b, d.Notes)
	_, err := w.Write(b.Bytes())
	return err
}

func (t *Table) markdown(b *bytes.Buffer) {
	if t.Title != "" {
		fmt.Fprintf(b, "**%s**\n\n", t.Title)
	}
	if len(t.Rows) > 0 {
		head, rows := t.strings()
		line := func(cells []string) {
			for _, c := range cells {
				fmt.Fprintf(b, "| %s ", indented(cellText.Replace(c)))
			}
			b.WriteString("|\n")
		}
		line(head)
		for c := range t.Columns {
			if t.numericColumn(c) {
				b.WriteString("| ---: ")
			} else {
				b.WriteString("| --- ")
			}
		}
		b.WriteString("|\n")
		for _, r := range rows {
			line(r)
		}
	}
	if len(t.Drawing) > 0 {
		fmt.Fprintf(b, "```\n%s\n```\n", strings.Join(t.Drawing, "\n"))
	}
	listNotes(b, t.Notes)
}

// indented keeps the blanks that a cell begins with, which Markdown would drop.
func indented(cell string) string {
	text := strings.TrimLeft(cell, " ")
	return strings.Repeat("&nbsp;", len(cell)-len(text)) + text
}

func listNotes(b *bytes.Buffer, notes []string) {
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
}
