package report

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/unit"
)

// example has a cell of every type. 1.5 GiB is 1610612736 bytes, a quarter of it 402653184.
var example = Table{
	Title:   "two strategies",
	Columns: []Column{{Name: "strategy"}, {Name: "peak", Key: "peak_bytes"}, {Name: "extra compute", Key: "recompute_overhead"}, {Name: "tokens/s", Key: "tokens_per_second"}, {Name: "where"}},
	Rows: []Row{
		{"none", 3 * unit.GiB / 2, Percent(0), Rate(12345.6), "head | loss"},
		{"full", unit.Bytes(402653184), Percent(33.25), nil, "layers.11"},
	},
	Notes: []string{"a note"},
}

func render(t *testing.T, f Format) string {
	t.Helper()
	d := Document{Headline: Headline{Word: "FITS", Tone: Good, Text: "peak 1.5"}, Facts: []Fact{{"budget", "2 GB"}}, Tables: []Table{example}, Rows: example}
	var b bytes.Buffer
	if err := d.Write(&b, f, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	want := `FITS  peak 1.5
budget  2 GB

two strategies
strategy  peak (GiB)  extra compute  tokens/s  where
none            1.50            0 %    12,346  head | loss
full           0.375         33.2 %            layers.11
a note
`
	if d := cmp.Diff(want, render(t, Text)); d != "" {
		t.Error(d)
	}
}

func TestMarkdown(t *testing.T) {
	want := `**FITS** peak 1.5

- budget: 2 GB

**two strategies**

| strategy | peak (GiB) | extra compute | tokens/s | where |
| --- | ---: | ---: | ---: | --- |
| none | 1.50 | 0 % | 12,346 | head \| loss |
| full | 0.375 | 33.2 % |  | layers.11 |

- a note
`
	if d := cmp.Diff(want, render(t, Markdown)); d != "" {
		t.Error(d)
	}
}

// What begins with blanks keeps them in Markdown, and what is drawn is fenced.
func TestMarkdownKeepsColumns(t *testing.T) {
	d := Document{Tables: []Table{
		{Columns: []Column{{Name: "layers"}}, Rows: []Row{{"0-3"}, {"  0-1"}}},
		{Title: "plot", Drawing: []string{" │ ▪", " └──"}, Notes: []string{"▪ a point"}},
	}}
	want := "| layers |\n| --- |\n| 0-3 |\n| &nbsp;&nbsp;0-1 |\n\n**plot**\n\n```\n │ ▪\n └──\n```\n\n- ▪ a point\n"
	var b bytes.Buffer
	if err := d.Write(&b, Markdown, false); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestCSV(t *testing.T) {
	want := `strategy,peak_bytes,recompute_overhead,tokens_per_second,where
none,1610612736,0,12345.6,head | loss
full,402653184,0.3325,,layers.11
`
	if d := cmp.Diff(want, render(t, CSV)); d != "" {
		t.Error(d)
	}
}

func TestGrouped(t *testing.T) {
	for _, c := range []struct {
		v    int64
		want string
	}{{0, "0"}, {999, "999"}, {1000, "1,000"}, {-1000, "-1,000"}, {-999, "-999"}, {124439808, "124,439,808"}} {
		if got := unit.Grouped(c.v); got != c.want {
			t.Errorf("unit.Grouped(%d) = %q, want %q", c.v, got, c.want)
		}
	}
}
