// Package report lays answers out for people and programs. A Document holds a headline, facts and Tables as data; text,
// Markdown, CSV and JSON are renderings of it, and JSON prints the very structs that the tables are made from. It does not
// build models, simulate or search: package study does.
package report

import (
	"fmt"
	"strconv"
	"strings"

	"ckptplan/internal/unit"
)

// Table is data: columns, and rows of cells that keep their units until they are printed.
type Table struct {
	Title   string
	Columns []Column
	Rows    []Row
	// Drawing is printed as it is, one line per string, where characters line up.
	Drawing []string
	// Notes are printed below, one per line.
	Notes []string
}

// Column is a heading. In text a column of sizes gets one common binary unit, which joins its heading.
type Column struct {
	Name string
	// Key is the column's name in CSV, with its unit: peak_bytes. Empty: Name.
	Key string
}

// Row is one cell per column. A cell is a string, a unit.Bytes, a unit.Duration, a Percent, a Count, a Rate, a Scaled, a
// bool (yes or no), or nil for a value that does not exist.
type Row []any

type (
	// Percent is a share or a change; 12.5 is 12.5 %.
	Percent float64
	// Count is a number of things.
	Count int64
	// Rate is a number of things a second.
	Rate float64
	// Scaled is a plain number that people see in units of One, which the heading names.
	Scaled struct{ Value, One int64 }
)

// numeric is true for cells that are set to the right.
func numeric(cell any) bool {
	switch cell.(type) {
	case unit.Bytes, unit.Duration, Percent, Count, Rate, Scaled:
		return true
	}
	return false
}

// numericColumn is true if column c holds only numbers.
func (t *Table) numericColumn(c int) bool {
	found := false
	for _, r := range t.Rows {
		if r[c] == nil {
			continue
		}
		if !numeric(r[c]) {
			return false
		}
		found = true
	}
	return found
}

// sizes are the cells of column c if all are sizes, or nil.
func (t *Table) sizes(c int) []unit.Bytes {
	var out []unit.Bytes
	for _, r := range t.Rows {
		switch v := r[c].(type) {
		case nil:
		case unit.Bytes:
			out = append(out, v)
		default:
			return nil
		}
	}
	return out
}

// strings lays the table out for people: headings with units, and cells in the common unit of their column.
func (t *Table) strings() (head []string, rows [][]string) {
	rows = make([][]string, len(t.Rows))
	for i := range rows {
		rows[i] = make([]string, len(t.Columns))
	}
	for c, col := range t.Columns {
		name := col.Name
		sizes := t.sizes(c)
		scale := unit.CommonScale(sizes...)
		if sizes != nil {
			name += " (" + scale.Unit + ")"
		}
		head = append(head, name)
		for i, r := range t.Rows {
			if b, ok := r[c].(unit.Bytes); ok && sizes != nil {
				rows[i][c] = scaled(b, scale)
			} else {
				rows[i][c] = Visible(forPeople(r[c]))
			}
		}
	}
	return head, rows
}

// scaled prints a size in its column's unit. Sizes far below the unit get no digits.
func scaled(b unit.Bytes, s unit.Scale) string {
	text := s.Format(b)
	if strings.HasPrefix(text, "0.000") {
		return "< 0.001"
	}
	return text
}

// forPeople prints one cell with its unit.
func forPeople(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case Percent:
		return unit.Percent(float64(v))
	case Count:
		return unit.Grouped(int64(v))
	case Rate:
		return unit.Grouped(int64(v + 0.5))
	case Scaled:
		return strconv.FormatFloat(float64(v.Value)/float64(v.One), 'f', -1, 64)
	case fmt.Stringer: // sizes and times
		return v.String()
	}
	panic(fmt.Sprintf("report: a cell of type %T", cell))
}

// forPrograms prints one cell as plain numbers: bytes, nanoseconds, fractions of 1.
func forPrograms(cell any) string {
	switch v := cell.(type) {
	case unit.Bytes:
		return strconv.FormatInt(int64(v), 10)
	case unit.Duration:
		return strconv.FormatInt(int64(v), 10)
	case Count:
		return strconv.FormatInt(int64(v), 10)
	case Percent:
		return strconv.FormatFloat(float64(v)/100, 'f', -1, 64)
	case Rate:
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	case Scaled:
		return strconv.FormatInt(v.Value, 10)
	}
	return forPeople(cell)
}
