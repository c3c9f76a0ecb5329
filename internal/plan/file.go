package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/model/spec"
	"ckptplan/internal/unit"
)

// FormatVersion is the version of the plan file that this package reads and writes.
const FormatVersion = 1

// File is what a plan file holds. Only the format's version and the nodes are required: a plan written by hand
// applies to every model that has its layers.
type File struct {
	FormatVersion int `yaml:"format_version" json:"format_version"`
	// Tool is the version of the ckptplan that wrote the file.
	Tool string `yaml:"tool_version,omitempty" json:"tool_version,omitempty"`
	// Model is what the plan was made for; nil for one written by hand.
	Model *ModelID `yaml:"model,omitempty" json:"model,omitempty"`
	// Class is the class of plans that a solver searched (flat, nested); empty for a named strategy.
	Class string `yaml:"class,omitempty" json:"class,omitempty"`
	// Budget is the device memory that the plan was made to fit, or 0.
	Budget unit.Bytes `yaml:"budget_bytes,omitempty" json:"budget_bytes,omitempty"`
	// Predicted is the simulator's prediction for the plan.
	Predicted *Predicted `yaml:"predicted,omitempty" json:"predicted,omitempty"`
	Plan      `yaml:",inline"`
	// Certificate says why no plan of the class is faster; nil for plans of other origin.
	Certificate *Certificate `yaml:"certificate,omitempty" json:"certificate,omitempty"`
	// Spec is the whole model and training step that the plan was made for, so that the file can be checked alone.
	Spec *spec.Spec `yaml:"spec,omitempty" json:"spec,omitempty"`
}

// ModelID names a model and its settings.
type ModelID struct {
	Name        string `yaml:"name" json:"name"`
	Fingerprint string `yaml:"fingerprint" json:"fingerprint"`
}

// Predicted is what a plan is predicted to need.
type Predicted struct {
	Peak  unit.Bytes `yaml:"peak_tensor_bytes" json:"peak_tensor_bytes"` // of the second training step
	Phase string     `yaml:"phase,omitempty" json:"phase,omitempty"`     // forward, backward or optimizer
	Block string     `yaml:"block,omitempty" json:"block,omitempty"`     // where the peak is: layers.31
	// StepTime is in nanoseconds on the data sheet of GPU; 0 if no card was named.
	StepTime int64  `yaml:"step_ns,omitempty" json:"step_ns,omitempty"`
	GPU      string `yaml:"gpu,omitempty" json:"gpu,omitempty"`
	// Overhead is the recomputed share of the step without a plan: 0.25 is a step a quarter longer.
	Overhead float64 `yaml:"recompute_overhead,omitempty" json:"recompute_overhead,omitempty"`
}

// NewFile is the file of a plan made for s. tool is the version of ckptplan.
func NewFile(p *Plan, s *spec.Spec, tool string) *File {
	f := &File{FormatVersion: FormatVersion, Tool: tool, Model: &ModelID{Name: s.Name, Fingerprint: Fingerprint(s)}, Plan: *p, Spec: s}
	if f.Nodes == nil {
		f.Nodes = []Node{} // JSON has a list, as YAML does
	}
	return f
}

// Write writes a plan file: YAML with a comment on every part. Equal Files give equal bytes.
func Write(w io.Writer, f *File) error {
	var out bytes.Buffer
	var err error
	part := func(comment string, there bool, v any) {
		if !there || err != nil {
			return
		}
		var text []byte
		if text, err = yaml.Dump(v, yaml.WithIndent(2), yaml.WithLineWidth(-1)); err == nil {
			fmt.Fprintf(&out, "%s%s", comment, text)
		}
	}
	part("# A checkpoint plan: which layers of a training step are recomputed in backward instead of kept.\n", true, &struct {
		FormatVersion int    `yaml:"format_version"`
		Tool          string `yaml:"tool_version,omitempty"`
	}{f.FormatVersion, f.Tool})
	part("\n# What it was made for. The fingerprint covers the whole spec below except its name; a different one is refused.\n", f.Model != nil, &struct {
		Model *ModelID `yaml:"model"`
	}{f.Model})
	part("\n# The named strategy, or optimal within a class of plans.\n", true, &struct {
		Strategy string `yaml:"strategy"`
		Class    string `yaml:"class,omitempty"`
	}{cmp.Or(f.Strategy, "custom"), f.Class})
	part(fmt.Sprintf("\n# The memory it was made to fit: %s.\n", f.Budget.Echo()), f.Budget != 0, &struct {
		Budget unit.Bytes `yaml:"budget_bytes"`
	}{f.Budget})
	if f.Predicted != nil {
		part(fmt.Sprintf("\n# What the simulator predicts: a peak of %s in tensors, in the second step.\n", f.Predicted.Peak.Echo()), true, &struct {
			Predicted *Predicted `yaml:"predicted"`
		}{f.Predicted})
	}
	nodes, e := nodesOf(f.Nodes)
	if e != nil {
		return e
	}
	part(nodesComment, true, &struct {
		Nodes *yaml.Node `yaml:"nodes"`
	}{nodes})
	if f.Certificate != nil {
		var c *yaml.Node
		if c, e = certificateOf(f.Certificate); e != nil {
			return e
		}
		comment := certificateComment
		if f.Certificate.Chain != nil {
			comment = chainComment
		}
		part(comment, true, &struct {
			Certificate *yaml.Node `yaml:"certificate"`
		}{c})
	}
	part("\n# The model and the training step that the plan was made for; copied into a file of its own, it is a spec.\n", f.Spec != nil, &struct {
		Spec *spec.Spec `yaml:"spec"`
	}{f.Spec})
	if err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

const nodesComment = `
# Layers are numbered from 0; those that no node names keep everything. A node treats each of the layers first to last
# by its option, a list of parts of the layer that are recomputed (none: keep); with segment: true the layers are
# recomputed together, and inner says what is checkpointed again inside.
`

// nodesOf is the plan as YAML nodes, a leaf a line.
func nodesOf(ns []Node) (*yaml.Node, error) {
	list := &yaml.Node{}
	if ns == nil {
		ns = []Node{}
	}
	if err := list.Encode(ns); err != nil {
		return nil, err
	}
	flow(list, ns)
	return list, nil
}

func flow(list *yaml.Node, ns []Node) {
	for i, n := range ns {
		if len(n.Inner) == 0 {
			list.Content[i].Style = yaml.FlowStyle
			continue
		}
		m := list.Content[i]
		flow(m.Content[len(m.Content)-1], n.Inner) // inner is a node's last key
	}
}
