package plan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ckptplan/internal/document"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/unit"
)

// sameFile compares what a plan file holds: not what was said of a spec when it was read.
var sameFile = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(spec.Spec{}, "Defaults", "Warnings")}

func preset(t testing.TB, name string) *spec.Spec {
	t.Helper()
	s, err := model.LoadPreset(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func written(t interface{ Fatal(...any) }, f *File) []byte {
	var out bytes.Buffer
	if err := Write(&out, f); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFileReadsAsAPersonWouldWriteIt(t *testing.T) {
	p, err := Named("nested-6", 12)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFile(p, preset(t, "gpt2"), "0.1.0")
	f.Spec = nil // its keys are the spec's own
	f.Model.Fingerprint = "3f9c02b1d4e8"
	f.Class, f.Budget = "nested", 24*unit.GB
	f.Predicted = &Predicted{Peak: 2924727808, Phase: "backward", Block: "head", StepTime: 41250000, GPU: "rtx-3090", Overhead: 0.25}
	want := `# A checkpoint plan: which layers of a training step are recomputed in backward instead of kept.
format_version: 1
tool_version: 0.1.0

# What it was made for. The fingerprint covers the whole spec below except its name; a different one is refused.
model:
  name: gpt2
  fingerprint: 3f9c02b1d4e8

# The named strategy, or optimal within a class of plans.
strategy: nested-6
class: nested

# The memory it was made to fit: 24.00 GB (22.35 GiB).
budget_bytes: 24000000000

# What the simulator predicts: a peak of 2.925 GB (2.724 GiB) in tensors, in the second step.
predicted:
  peak_tensor_bytes: 2924727808
  phase: backward
  block: head
  step_ns: 41250000
  gpu: rtx-3090
  recompute_overhead: 0.25

# Layers are numbered from 0; those that no node names keep everything. A node treats each of the layers first to last
# by its option, a list of parts of the layer that are recomputed (none: keep); with segment: true the layers are
# recomputed together, and inner says what is checkpointed again inside.
nodes:
- first: 0
  last: 5
  segment: true
  inner:
  - {first: 0, last: 5, option: {name: full, regions: [{span: layer}]}}
- first: 6
  last: 11
  segment: true
  inner:
  - {first: 6, last: 11, option: {name: full, regions: [{span: layer}]}}
`
	if diff := cmp.Diff(want, string(written(t, f))); diff != "" {
		t.Error(diff)
	}
}

func TestHandWrittenPlan(t *testing.T) {
	src := "format_version: 1\nnodes:\n- {first: 0, last: 3, option: {name: full, regions: [{span: layer}]}}\n"
	f, err := Read("hand.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := &File{FormatVersion: 1, Plan: Plan{Strategy: "custom", Nodes: []Node{{First: 0, Last: 3, Option: &Full}}}}
	if diff := cmp.Diff(want, f, sameFile); diff != "" {
		t.Error(diff)
	}
	if err := f.Match(preset(t, "gpt2")); err != nil {
		t.Error("a plan of layers 0 to 3 fits 12 layers:", err)
	}
	short := *preset(t, "gpt2")
	short.L = 3
	if err := f.Match(&short); err == nil || !strings.Contains(err.Error(), "layer 3 does not exist: the model has layers 0 to 2") {
		t.Error(err)
	}
}

// genNodes draws well-formed nodes over the layers lo…hi.
func genNodes(t *rapid.T, lo, hi, depth int) []Node {
	var ns []Node
	for at := lo; at <= hi; {
		n := Node{First: rapid.IntRange(at, hi).Draw(t, "first")}
		n.Last = rapid.IntRange(n.First, hi).Draw(t, "last")
		at = n.Last + 1
		whole := depth > 0 && n.First == lo && n.Last == hi
		if depth < 3 && !whole && rapid.Bool().Draw(t, "segment") {
			n.Segment = true
			if rapid.Bool().Draw(t, "nested") {
				n.Inner = genNodes(t, n.First, n.Last, depth+1)
			}
		} else {
			n.Option = genOption(t, depth > 0)
		}
		ns = append(ns, n)
		if rapid.Bool().Draw(t, "enough") {
			break
		}
	}
	return ns
}

func genOption(t *rapid.T, nested bool) *Option {
	o := &Option{Name: rapid.StringMatching(`[a-z][a-z0-9+-]{0,8}x`).Draw(t, "option")}
	for _, s := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"norm1", "core", "norm2", "act"}), 0, 4, rapid.ID).Draw(t, "spans") {
		if nested {
			o.Regions = append(o.Regions, Region{Span: s})
			continue
		}
		r := Region{Span: s, Offload: rapid.SampledFrom([]string{"", "saved", "inputs"}).Draw(t, "offload")}
		if r.Offload != "saved" {
			r.Cache = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"aten.mm", "aten.addmm", "aten.bmm"}), 0, 2, rapid.ID).Draw(t, "cache")
		}
		o.Regions = append(o.Regions, r)
	}
	return o
}

func genFile(t *rapid.T, s *spec.Spec) *File {
	f := NewFile(&Plan{Strategy: rapid.StringMatching(`[ -~é漢]{1,12}`).Draw(t, "strategy"), Nodes: genNodes(t, 0, LayersOf(s)-1, 0)}, s, "0.1.0")
	f.Class = rapid.SampledFrom([]string{"", "flat", "nested"}).Draw(t, "class")
	f.Budget = unit.Bytes(rapid.Int64Min(0).Draw(t, "budget"))
	if rapid.Bool().Draw(t, "by hand") {
		f.Model, f.Spec = nil, nil
	}
	if rapid.Bool().Draw(t, "predicted") {
		f.Predicted = &Predicted{
			Peak: unit.Bytes(rapid.Int64Min(0).Draw(t, "peak")), Phase: rapid.SampledFrom([]string{"", "forward", "backward", "optimizer"}).Draw(t, "phase"),
			Block: rapid.SampledFrom([]string{"", "embedding", "layers.31", "head"}).Draw(t, "block"), StepTime: rapid.Int64Min(0).Draw(t, "step"),
			Overhead: rapid.Float64Range(0, 100).Draw(t, "overhead"),
		}
	}
	return f
}

func TestWrittenFilesReadBack(t *testing.T) {
	specs := []*spec.Spec{preset(t, "gpt2"), preset(t, "llama-3-8b"), preset(t, "mixtral-8x7b"), preset(t, "t5-base"), preset(t, "vit-base")}
	rapid.Check(t, func(t *rapid.T) {
		f := genFile(t, rapid.SampledFrom(specs).Draw(t, "spec"))
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

func TestNamedStrategiesReadBack(t *testing.T) {
	s := preset(t, "llama-3-8b")
	for _, name := range []string{
		"none", "full", "every-3", "first-1", "last-32", "segments-5", "sqrt", "nested-1", "nested-6", "selective", "selective-attn",
		"selective-mlp", "offload", "offload-inputs",
	} {
		p, err := Named(name, s.L)
		if err != nil {
			t.Fatal(err)
		}
		f := NewFile(p, s, "0.1.0")
		back, err := Read("plan.yaml", written(t, f))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(f, back, sameFile); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := back.Match(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Validate(s.L); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// places are an error's diagnostics as "line:col: message", one a line.
func places(t *testing.T, err error) string {
	t.Helper()
	var ds document.Diagnostics
	if !errors.As(err, &ds) || len(ds) == 0 {
		t.Fatalf("not diagnostics: %v", err)
	}
	var lines []string
	for _, d := range ds {
		head, _, _ := strings.Cut(d.String(), "\n")
		lines = append(lines, strings.TrimPrefix(head, d.File+":"))
	}
	return strings.Join(lines, "\n")
}

func TestReadRefuses(t *testing.T) {
	spec := "spec: {L: 12, S: 1024, H: 768, B: 8, heads: 12, dtype: bf16}\n"
	head := "format_version: 1\n" + spec
	full := "option: {name: full, regions: [{span: layer}]}"
	for _, tt := range []struct{ name, src, want string }{
		{"empty", "", " empty: expected a plan file with the keys format_version and nodes"},
		{"binary", "\x00\x01", " a binary file, not a plan file with the keys format_version and nodes"},
		{"not YAML", "nodes: [", "2:1: not YAML: did not find expected node content"},
		{"an alias inside its own anchor", "format_version: 1\nnodes: &n [{first: 0, last: 3, segment: true, inner: *n}]\n", "2:54: an alias stands inside its own anchor: it would never end"},
		{
			"aliases without end", "format_version: 1\nnodes:\n- &a {inner: [0, 0, 0, 0, 0, 0, 0, 0]}\n- &b {inner: [*a, *a, *a, *a, *a, *a, *a, *a]}\n- &c {inner: [*b, *b, *b, *b, *b, *b, *b, *b]}\n" +
				"- &d {inner: [*c, *c, *c, *c, *c, *c, *c, *c]}\n- &e {inner: [*d, *d, *d, *d, *d, *d, *d, *d]}\n- &f {inner: [*e, *e, *e, *e, *e, *e, *e, *e]}\n- {inner: [*f, *f, *f, *f, *f, *f, *f, *f]}\n",
			"9:11: aliases stand for more than 1048576 values",
		},
		{"nested deeply", "format_version: 1\nnodes: " + strings.Repeat("[", 1002) + strings.Repeat("]", 1002) + "\n", "2:8: nested more than 1000 deep"},
		{"two documents", "format_version: 1\n---\nnodes: []\n", " more than one document: a plan file holds one"},
		{"a list", "- 1\n", `1:1: a plan file is a map such as {format_version: 1, nodes: []}, not a list`},
		{"nothing in it", "{}\n", "1:1: missing format_version: a plan file begins with format_version: 1"},
		{"a spec", "L: 12\nS: 1024\n", "1:1: unknown key \"L\": known are format_version, tool_version, model, strategy, class, budget_bytes, predicted, nodes, certificate, spec\n2:1: unknown key \"S\": known are format_version, tool_version, model, strategy, class, budget_bytes, predicted, nodes, certificate, spec"},
		{"later format", "format_version: 2\nnodes: []\n", "1:17: format_version 2: this ckptplan reads version 1; a newer one wrote the file"},
		{"near miss", "format_version: 1\nnodes: [{frist: 0, last: 1, segment: true}]\n", "2:9: nodes[0] needs first, a layer's number from 0\n2:10: unknown key \"frist\" (did you mean \"first\"?)"},
		{"key twice", "format_version: 1\nnodes: []\nnodes: []\n", "3:1: nodes is given twice (first in line 2)"},
		{"wrong types", "format_version: 1\nbudget_bytes: 24GB\nnodes: {}\npredicted: 7\n", `
2:15: budget_bytes: "24GB", but it is a whole number of at least 0
3:8: nodes is a list such as [{first: 0, last: 3, segment: true}], not a map
4:12: predicted is a map such as {peak_tensor_bytes: 1000000}, not "7"`},
		{"negative layer", head + "nodes: [{first: -1, last: 1, " + full + "}]\n", "3:17: nodes[0].first: -1, but it is a whole number of at least 0"},
		{"a word for a layer", head + "nodes: [{first: zero, last: 1, " + full + "}]\n", `3:17: nodes[0].first: "zero", but it is a whole number of at least 0`},
		{"layer out of range", head + "nodes: [{first: 3, last: 12, " + full + "}]\n", "3:26: layer 12 does not exist: the model has layers 0 to 11"},
		{"last before first", head + "nodes: [{first: 3, last: 2, " + full + "}]\n", "3:26: last 2 is before first 3"},
		{"repeated layer", head + "nodes:\n- {first: 0, last: 3, " + full + "}\n- {first: 3, last: 5, " + full + "}\n", "5:11: layer 3 is covered twice, or nodes are not in the order of the layers: the node before ends with layer 3"},
		{"order", head + "nodes:\n- {first: 6, last: 7, " + full + "}\n- {first: 0, last: 1, " + full + "}\n", "5:11: layer 0 is covered twice, or nodes are not in the order of the layers: the node before ends with layer 7"},
		{"no option", head + "nodes: [{first: 0, last: 1}]\n", "3:9: a node needs an option, such as {name: full, regions: [{span: layer}]}, or segment: true"},
		{"option of a segment", head + "nodes: [{first: 0, last: 1, segment: true, " + full + "}]\n", "3:52: a segment is one region and has no option: put a node with the option into inner"},
		{"inner of a leaf", head + "nodes: [{first: 0, last: 1, " + full + ", inner: [{first: 0, last: 0, segment: true}]}]\n", "3:84: only a segment has inner nodes: add segment: true"},
		{"inner outside", head + "nodes: [{first: 2, last: 5, segment: true, inner: [{first: 4, last: 6, " + full + "}]}]\n", "3:60: layers 4 to 6 are outside the segment around them, 2 to 5"},
		{"segment in itself", head + "nodes: [{first: 2, last: 5, segment: true, inner: [{first: 2, last: 5, segment: true}]}]\n", "3:81: a segment inside a segment covers fewer layers than it"},
		{"unknown span", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{span: atn}]}}]\n", `3:64: nodes[0].option.regions[0].span: "atn" is not one of layer, attn, core, mlp, act, norm1, norm2 (did you mean "attn"?)`},
		{"no span", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{cache: [aten.mm]}]}}]\n", `3:57: unknown span "": known are layer, attn, core, mlp, act, norm1, norm2`},
		{"overlap", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{span: core}, {span: attn}]}}]\n", "3:78: span attn overlaps span core: the regions of an option share no ops"},
		{"overlap of the layer", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{span: mlp}, {span: layer}]}}]\n", "3:77: span layer overlaps span mlp: the regions of an option share no ops"},
		{"keep that does not", head + "nodes: [{first: 0, last: 1, option: {name: keep, regions: [{span: mlp}]}}]\n", "3:59: option keep has no regions"},
		{"full that is not", head + "nodes: [{first: 0, last: 1, option: {name: full, regions: [{span: mlp}]}}]\n", "3:37: option full is one region over the span layer, nothing cached or offloaded"},
		{"offload", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{span: mlp, offload: disk}]}}]\n", `3:78: nodes[0].option.regions[0].offload: "disk" is not one of saved, inputs`},
		{"cache of what is saved", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{span: mlp, offload: saved, cache: [aten.mm]}]}}]\n", "3:92: offload: saved recomputes nothing, so there is nothing to cache"},
		{"cache in a segment", head + "nodes: [{first: 0, last: 1, segment: true, inner: [{first: 0, last: 0, option: {name: x, regions: [{span: mlp, cache: [aten.mm]}]}}]}]\n", "3:119: inside a segment no op can be cached: the segment's own recompute would keep it a second time"},
		{"offload in a segment", head + "nodes: [{first: 0, last: 1, segment: true, inner: [{first: 0, last: 0, option: {name: x, regions: [{span: mlp, offload: saved}]}}]}]\n", "3:121: inside a segment no tensor can be offloaded: the segment's own recompute would send it a second time"},
		{"cached twice", head + "nodes: [{first: 0, last: 1, option: {name: x, regions: [{span: mlp, cache: [aten.mm, aten.mm]}]}}]\n", "3:86: op aten.mm is listed twice"},
		{"wrong fingerprint", head + "model: {name: gpt2, fingerprint: '000000000000'}\nnodes: []\n", "3:34: fingerprint 000000000000 is not that of the spec in this file, %s: one of them was edited; optimize again"},
		{"no fingerprint", head + "model: {name: gpt2}\nnodes: []\n", "3:8: model needs its fingerprint; leave model out of a plan written by hand"},
		{"spec's own errors", "format_version: 1\nnodes: []\nspec:\n  L: 12\n  S: 8k\n  H: 768\n  B: 0\n  heads: 12\n  dtype: bf16\n", "5:6: S: \"8k\" is a word: write 8192\n7:6: B: 0, but it is a whole number of at least 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimSpace(tt.want)
			if strings.Contains(want, "%s") {
				s, err := model.Load("x", []byte(strings.TrimPrefix(strings.TrimSpace(spec), "spec: ")))
				if err != nil {
					t.Fatal(err)
				}
				want = fmt.Sprintf(want, Fingerprint(s))
			}
			_, err := Read("p.yaml", []byte(tt.src))
			if diff := cmp.Diff(want, strings.TrimSpace(places(t, err))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	p, err := Named("nested-5", 12)
	if err != nil {
		f.Fatal(err)
	}
	file := NewFile(p, preset(f, "gpt2"), "0.1.0")
	file.Predicted = &Predicted{Peak: 1, Phase: "forward", Overhead: 0.5}
	f.Add(written(f, file))
	file.Certificate = &Certificate{Class: "nested", Chain: &CertifiedChain{
		Layers: []ChainTensors{{"0-11", 1, 2, 3}}, Options: []ChainOption{{Keep, []ChainPrice{{"0-11", 1, 2, 3, 4, 5, -6}}}},
	}}
	f.Add(written(f, file))
	f.Add([]byte("format_version: 1\nnodes: [{first: 0, last: 2, option: {name: x, regions: [{span: act, cache: [a]}]}}]\n"))
	f.Add([]byte("format_version: 1\nnodes: &a [*a]\n"))
	f.Add([]byte("format_version: 1\nnodes: &a [{first: 0, last: 3, segment: true, inner: *a}]\n"))
	f.Add([]byte("format_version: 1\nnodes: [{first: 0, last: 9, inner: [{first: 1}], option: {}}]\nspec: {L: 1}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Read("p.yaml", src)
		if err != nil {
			var ds document.Diagnostics
			if !errors.As(err, &ds) || len(ds) == 0 {
				t.Fatalf("%T %v", err, err)
			}
			_ = err.Error()
			return
		}
		back, err := Read("p.yaml", written(t, file))
		if err != nil {
			t.Fatalf("%v\n%s", err, written(t, file))
		}
		if diff := cmp.Diff(file, back, sameFile); diff != "" {
			t.Error(diff)
		}
	})
}
