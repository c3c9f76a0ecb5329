package report

import (
	"cmp"
	"encoding/csv"
	"io"
)

// csv writes the table as plain numbers: bytes, nanoseconds, fractions of 1. A value that does not exist is empty.
func (t *Table) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	record := make([]string, len(t.Columns))
	for c, col := range t.Columns {
		record[c] = cmp.Or(col.Key, col.Name)
	}
	if err := out.Write(record); err != nil {
		return err
	}
	for _, r := range t.Rows {
		for c := range record {
			record[c] = forPrograms(r[c])
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
