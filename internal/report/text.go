package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/fatih/color"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// paint colours parts of a text, or returns them unchanged.
type paint bool

func (p paint) with(text string, attributes ...color.Attribute) string {
	if !p || text == "" || len(attributes) == 0 {
		return text
	}
	c := color.New(attributes...)
	c.EnableColor()
	return c.Sprint(text)
}

// tones are the colours of headlines.
var tones = map[Tone][]color.Attribute{
	Good: {color.FgGreen, color.Bold}, Doubtful: {color.FgYellow, color.Bold}, Bad: {color.FgRed, color.Bold}, Neutral: {color.Bold},
}

// text writes plain aligned columns without borders.
func (d *Document) text(w io.Writer, colour bool) error {
	var b bytes.Buffer
	p := paint(colour)
	if h := d.Headline; h != (Headline{}) {
		fmt.Fprintf(&b, "%s\n", strings.TrimLeft(p.with(h.Word, tones[h.Tone]...)+"  "+h.Text, " "))
	}
	width := 0
	for _, f := range d.Facts {
		width = max(width, len(f.Name))
	}
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "%-*s  %s\n", width, f.Name, f.Text)
	}
	for i := range d.Tables {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if err := d.Tables[i].text(&b, p); err != nil {
			return err
		}
	}
	if len(d.Notes) > 0 {
		b.WriteByte('\n')
		writeNotes(&b, d.Notes)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (t *Table) text(b *bytes.Buffer, p paint) error {
	if t.Title != "" {
		fmt.Fprintf(b, "%s\n", t.Title)
	}
	if len(t.Rows) > 0 {
		laid, err := t.aligned()
		if err != nil {
			return err
		}
		for i, line := range laid {
			if i == 0 {
				line = p.with(line, color.Underline)
			}
			b.WriteString(line + "\n")
		}
	}
	writeNotes(b, t.Drawing)
	writeNotes(b, t.Notes)
	return nil
}

// aligned are the lines of the table, heading first: numbers right, words left, trailing blanks trimmed.
func (t *Table) aligned() ([]string, error) {
	head, rows := t.strings()
	align := make([]tw.Align, len(t.Columns))
	for c := range align {
		align[c] = tw.AlignLeft
		if t.numericColumn(c) {
			align[c] = tw.AlignRight
		}
	}
	var b bytes.Buffer
	table := tablewriter.NewTable(&b,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{
				Separators: tw.Separators{ShowHeader: tw.Off, ShowFooter: tw.Off, BetweenRows: tw.Off, BetweenColumns: tw.Off},
				Lines:      tw.LinesNone,
			},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithRowAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithPadding(tw.Padding{Left: " ", Right: " ", Overwrite: true}),
	)
	table.Header(head)
	if err := table.Bulk(rows); err != nil {
		return nil, err
	}
	if err := table.Render(); err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i][1:], " ")
	}
	return lines, nil
}

func writeNotes(b *bytes.Buffer, notes []string) {
	for _, n := range notes {
		fmt.Fprintf(b, "%s\n", n)
	}
}
