package plan

import (
	"cmp"
	"strconv"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// Read reads a plan file. The error is a document.Diagnostics with everything that is wrong; name stands in the messages.
func Read(name string, src []byte) (*File, error) {
	d, err := document.ParseDocument(name, src, "plan", "a plan file with the keys format_version and nodes")
	if err != nil {
		return nil, err
	}
	r := &reader{Document: d, at: map[string]*yaml.Node{}}
	f := r.file()
	if err := d.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// reader reads one plan file and remembers where each part of the plan stands.
type reader struct {
	*document.Document
	at map[string]*yaml.Node
}

func (r *reader) file() *File {
	f := &File{Plan: Plan{Nodes: []Node{}}} // JSON has a list, as YAML does
	root := r.Root
	version := false
	form := "{format_version: 1, nodes: []}"
	keys := []string{"format_version", "tool_version", "model", "strategy", "class", "budget_bytes", "predicted", "nodes", "certificate", "spec"}
	r.Map("a plan file", root, form, keys, func(key string, v *yaml.Node) {
		r.at[key] = v
		switch key {
		case "format_version":
			version = true
			if f.FormatVersion = r.Count(key, v, 1); f.FormatVersion > FormatVersion {
				r.At(v, "format_version %d: this ckptplan reads version %d; a newer one wrote the file", f.FormatVersion, FormatVersion)
			}
		case "tool_version":
			f.Tool = r.Word(key, v, nil)
		case "model":
			f.Model = r.model(v)
		case "strategy":
			f.Strategy = r.Word(key, v, nil)
		case "class":
			f.Class = r.Word(key, v, nil)
		case "budget_bytes":
			f.Budget = unit.Bytes(r.Int64(key, v))
		case "predicted":
			f.Predicted = r.predicted(v)
		case "nodes":
			f.Nodes = append(f.Nodes, r.nodes(key, v)...)
		case "certificate":
			f.Certificate = r.certificate(key, v)
		case "spec":
			f.Spec = model.SpecIn(r.Document, v)
		}
	})
	if root.Kind != yaml.MappingNode {
		return nil
	}
	if !version {
		r.At(root, "missing format_version: a plan file begins with format_version: %d", FormatVersion)
	}
	if r.at["nodes"] == nil {
		r.At(root, "missing nodes: a plan names the layers it treats, such as nodes: [{first: 0, last: 3, option: {name: full, regions: [{span: layer}]}}]")
	}
	f.Strategy = cmp.Or(f.Strategy, "custom")
	r.sound(f)
	return f
}

// sound checks that the parts of the file agree.
func (r *reader) sound(f *File) {
	layers := maxLayers
	if f.Spec != nil {
		layers = LayersOf(f.Spec)
	}
	for _, p := range check(f.Nodes, layers) {
		if n := r.place(p.path); n != nil {
			r.At(n, "%s", p.text)
		}
	}
	if f.Spec == nil || r.at["model.fingerprint"] == nil {
		return
	}
	if is := Fingerprint(f.Spec); f.Model.Fingerprint != is {
		r.At(r.at["model.fingerprint"], "fingerprint %s is not that of the spec in this file, %s: one of them was edited; optimize again", f.Model.Fingerprint, is)
	}
}

// maxLayers bounds the layers of a plan without a spec.
const maxLayers = 1 << 20

// place is the node of a path, or of the nearest part around it that the file has.
func (r *reader) place(path string) *yaml.Node {
	for path != "" {
		if n := r.at[path]; n != nil {
			return n
		}
		i := len(path) - 1
		for i > 0 && path[i] != '.' && path[i] != '[' {
			i--
		}
		path = path[:i]
	}
	return r.Root
}

func (r *reader) model(n *yaml.Node) *ModelID {
	m := &ModelID{}
	r.Map("model", n, "{name: gpt2, fingerprint: 3f9c02b1d4e8}", []string{"name", "fingerprint"}, func(key string, v *yaml.Node) {
		r.at["model."+key] = v
		switch key {
		case "name":
			m.Name = r.Word("model.name", v, nil)
		case "fingerprint":
			m.Fingerprint = r.Word("model.fingerprint", v, nil)
		}
	})
	if n.Kind == yaml.MappingNode && r.at["model.fingerprint"] == nil {
		r.At(n, "model needs its fingerprint; leave model out of a plan written by hand")
	}
	return m
}

func (r *reader) predicted(n *yaml.Node) *Predicted {
	p := &Predicted{}
	keys := []string{"peak_tensor_bytes", "phase", "block", "step_ns", "gpu", "recompute_overhead"}
	r.Map("predicted", n, "{peak_tensor_bytes: 1000000}", keys, func(key string, v *yaml.Node) {
		where := "predicted." + key
		switch key {
		case "peak_tensor_bytes":
			p.Peak = unit.Bytes(r.Int64(where, v))
		case "phase":
			p.Phase = r.Word(where, v, []string{"forward", "backward", "optimizer"})
		case "block":
			p.Block = r.Word(where, v, nil)
		case "step_ns":
			p.StepTime = r.Int64(where, v)
		case "gpu":
			p.GPU = r.Word(where, v, nil)
		case "recompute_overhead":
			p.Overhead = r.Real(where, v)
		}
	})
	return p
}

func (r *reader) nodes(path string, list *yaml.Node) []Node {
	ns := []Node{}
	r.List(path, list, "[{first: 0, last: 3, segment: true}]", func(v *yaml.Node) {
		ns = append(ns, r.node(path+"["+strconv.Itoa(len(ns))+"]", v))
	})
	return ns
}

func (r *reader) node(path string, n *yaml.Node) Node {
	var node Node
	r.at[path] = n
	r.Map(path, n, "{first: 0, last: 3, segment: true}", []string{"first", "last", "option", "segment", "inner"}, func(key string, v *yaml.Node) {
		where := path + "." + key
		r.at[where] = v
		switch key {
		case "first":
			node.First = r.Count(where, v, 0)
		case "last":
			node.Last = r.Count(where, v, 0)
		case "option":
			node.Option = r.option(where, v)
		case "segment":
			node.Segment = r.Truth(where, v)
		case "inner":
			node.Inner = r.nodes(where, v)
		}
	})
	for _, key := range []string{"first", "last"} {
		if n.Kind == yaml.MappingNode && r.at[path+"."+key] == nil {
			r.At(n, "%s needs %s, a layer's number from 0", path, key)
		}
	}
	return node
}

func (r *reader) option(path string, n *yaml.Node) *Option {
	o := &Option{}
	r.Map(path, n, "{name: full, regions: [{span: layer}]}", []string{"name", "regions"}, func(key string, v *yaml.Node) {
		where := path + "." + key
		r.at[where] = v
		switch key {
		case "name":
			o.Name = r.Word(where, v, nil)
		case "regions":
			r.List(where, v, "[{span: layer}]", func(e *yaml.Node) {
				o.Regions = append(o.Regions, r.region(where+"["+strconv.Itoa(len(o.Regions))+"]", e))
			})
		}
	})
	return o
}

func (r *reader) region(path string, n *yaml.Node) Region {
	var g Region
	r.at[path] = n
	r.Map(path, n, "{span: layer}", []string{"span", "cache", "offload", "window"}, func(key string, v *yaml.Node) {
		where := path + "." + key
		r.at[where] = v
		switch key {
		case "span":
			g.Span = r.Word(where, v, Spans)
		case "cache":
			r.List(where, v, "[aten.mm]", func(e *yaml.Node) {
				r.at[where+"["+strconv.Itoa(len(g.Cache))+"]"] = e
				g.Cache = append(g.Cache, r.Word(where, e, nil))
			})
		case "offload":
			g.Offload = r.Word(where, v, Offloads)
		case "window":
			g.Window = r.Count(where, v, 1)
		}
	})
	return g
}
