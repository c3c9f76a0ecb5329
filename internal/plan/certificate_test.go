package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckptplan/internal/unit"
)

func genCertificate(t *rapid.T, layers int) *Certificate {
	size := func(what string) unit.Bytes { return unit.Bytes(rapid.Int64Min(0).Draw(t, what)) }
	signed := func(what string) int64 { return rapid.Int64().Draw(t, what) }
	count := func(what string) int64 { return rapid.Int64Min(0).Draw(t, what) }
	word := func(what string) string { return rapid.StringMatching(`[a-z][a-z.+ _-]{0,12}[a-z]`).Draw(t, what) }
	runs := func() string {
		var ls []int
		for i := range layers {
			if i == 0 || rapid.Bool().Draw(t, "layer") {
				ls = append(ls, i)
			}
		}
		return FormatLayers(ls)
	}
	c := &Certificate{
		Class: "flat", Status: "optimal", Budget: size("budget"), Reserve: size("reserve"), TensorBudget: size("tensors"),
		Card: CertifiedCard{Name: word("card"), Sheet: RatesFingerprint(1, 2, 3, 4, 5, count("link"))},
		Peak: CertifiedPeak{
			Bytes: size("peak"), Phase: "backward", Block: "layers.3", Op: word("op"),
			Owners: []CertifiedOwner{{Category: word("category"), What: word("what"), Each: size("each"), Count: 7}},
		},
		Time:   CertifiedTime{Step: count("step"), Extra: count("extra")},
		Closed: CertifiedSearch{How: "exact-search", Labels: count("labels")},
	}
	switch rapid.SampledFrom([]string{"none", "chain", "menu"}).Draw(t, "proof") {
	case "none":
		return c
	case "chain":
		c.Class, c.Closed = "nested", CertifiedSearch{How: "recurrence"}
		c.Chain = &CertifiedChain{
			Base: size("base"), Input: size("input"), Floor: size("floor"), MaxForwards: rapid.IntRange(0, 9).Draw(t, "forwards"),
			Bridges: rapid.Bool().Draw(t, "bridges"), Limit: size("limit"), Peak: size("peak"), Time: count("time"), Bound: count("bound"),
			Head:   ChainHead{size("forward"), size("backward"), size("gradient"), count("time")},
			Layers: []ChainTensors{{runs(), size("output"), size("gradient"), size("parameters")}},
		}
		for range rapid.IntRange(1, 4).Draw(t, "options") {
			o := ChainOption{Option: *genOption(t, false)}
			for range rapid.IntRange(1, 3).Draw(t, "rows") {
				o.Rows = append(o.Rows, ChainPrice{runs(), size("saved"), size("p"), size("q"), count("f"), count("b"), signed("e")})
			}
			c.Chain.Options = append(c.Chain.Options, o)
		}
		return c
	}
	c.Bound = &CertifiedBound{Rows: []PricedRow{{"backward", "head", count("lambda")}, {"forward", "3", 1}}, Bound: count("bound"), Gap: signed("gap")}
	m := &CertifiedMenu{
		Base: size("base"), Floor: size("floor"), Head: CertifiedHead{size("forward"), size("backward"), size("gradient")},
		Gradients: []LayerBytes{{runs(), signed("gradient")}},
	}
	for range rapid.IntRange(1, 4).Draw(t, "options") {
		o := CertifiedOption{Option: *genOption(t, false)}
		for range rapid.IntRange(1, 3).Draw(t, "rows") {
			o.Rows = append(o.Rows, LayerPrice{runs(), signed("save"), signed("f"), signed("q"), signed("p"), count("r")})
		}
		m.Options = append(m.Options, o)
	}
	if rapid.Bool().Draw(t, "shared") {
		m.Shared = []SharedTensor{{size("shared"), []Holder{{word("option"), runs()}}}}
	}
	c.Menu = m
	return c
}

func TestCertificatesReadBack(t *testing.T) {
	s := preset(t, "gpt2")
	rapid.Check(t, func(t *rapid.T) {
		f := NewFile(&Plan{Strategy: "optimal", Nodes: []Node{{First: 0, Last: 3, Option: &Full}}}, s, "0.1.0")
		f.Certificate = genCertificate(t, 12)
		text := written(t, f)
		back, err := Read("plan.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(f, back, sameFile); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
		if again := written(t, back); !bytes.Equal(text, again) {
			t.Fatalf("written twice:\n%s", cmp.Diff(string(text), string(again)))
		}
	})
}

// A proof of a nested plan also reads as a table.
func TestChainReadsAsATable(t *testing.T) {
	f := NewFile(&Plan{Strategy: "optimal"}, preset(t, "gpt2"), "0.1.0")
	f.Certificate = &Certificate{Chain: &CertifiedChain{
		Layers:  []ChainTensors{{"0-11", 1, 2, 3}},
		Options: []ChainOption{{Keep, []ChainPrice{{"0-10", 1, 2, 3, 4, 5, -6}, {"11", 6, 5, 4, 3, 2, 1}}}},
	}}
	text := string(written(t, f))
	for _, want := range []string{
		"\n# Why no nested plan is faster",
		"\n    layers:\n    - {layers: 0-11, output_bytes: 1, gradient_bytes: 2, parameters_gradient_bytes: 3}\n",
		"\n    - option: {name: keep}\n      rows:\n" +
			"      - {layers: 0-10, saved_bytes: 1, forward_overhead_bytes: 2, backward_overhead_bytes: 3, forward_ns: 4, backward_ns: 5, early_stop_ns: -6}\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A certificate reads as a table: a price a line.
func TestCertificateReadsAsATable(t *testing.T) {
	f := NewFile(&Plan{Strategy: "optimal"}, preset(t, "gpt2"), "0.1.0")
	f.Certificate = &Certificate{
		Bound: &CertifiedBound{Rows: []PricedRow{{"backward", "head", 5}}, Bound: 4, Gap: 1},
		Menu:  &CertifiedMenu{Options: []CertifiedOption{{Full, []LayerPrice{{"0-10", 1, 2, 3, 4, 5}, {"11", 5, 4, 3, 2, 1}}}}},
	}
	text := string(written(t, f))
	for _, want := range []string{
		"\n    - {phase: backward, row: head, lambda_ns_per_tib: 5}\n",
		"\n    - option: {name: full, regions: [{span: layer}]}\n      rows:\n" +
			"      - {layers: 0-10, save_bytes: 1, save_forward_bytes: 2, forward_bytes: 3, backward_bytes: 4, time_ns: 5}\n" +
			"      - {layers: \"11\", save_bytes: 5, save_forward_bytes: 4, forward_bytes: 3, backward_bytes: 2, time_ns: 1}\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestCertificateRefuses(t *testing.T) {
	head := "format_version: 1\nnodes: []\n"
	for _, tt := range []struct{ src, want string }{
		{"certificate: 7\n", `certificate is a map such as`},
		{"certificate: {class: flat}\n", "certificate needs budget_bytes"},
		{"certificate: {chain: {base_bytes: 1}}\n", "certificate.chain needs bound_ns"},
		{"certificate: {chain: {bridges: maybe}}\n", "certificate.chain.bridges"},
		{"certificate: {chain: {options: [{rows: [{saved_bytes: -1}]}]}}\n", "certificate.chain.options[0].rows[0].saved_bytes"},
		{"certificate: {chain: {limits_bytes: 1}}\n", `unknown key "limits_bytes" (did you mean "limit_bytes"?)`},
		{"certificate: {clas: flat}\n", `unknown key "clas" (did you mean "class"?)`},
	} {
		if _, err := Read("plan.yaml", []byte(head+tt.src)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.src, err)
		}
	}
}

func TestLayers(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0,2-5": {0, 2, 3, 4, 5}, "0-2,4": {0, 1, 2, 4}} {
		got, err := ParseLayers(text, 6)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
		if back := FormatLayers(want); back != text {
			t.Errorf("%v written %s", want, back)
		}
	}
	for _, text := range []string{"", "6", "3-2", "2,1", "1,1", "-1", "a", "0-9"} {
		if got, err := ParseLayers(text, 6); err == nil {
			t.Errorf("%q read as %v", text, got)
		}
	}
}
