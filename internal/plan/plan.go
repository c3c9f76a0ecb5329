// Package plan holds the declarative choice of what a training step recomputes: a tree of regions over layers, its
// file format, and the fingerprint that ties a file to the spec it was made for.
package plan

import "slices"

// Plan is the choice for every layer. Layers that no node covers keep everything.
type Plan struct {
	// Strategy is the named strategy the plan came from, or "optimal" for a solver's.
	Strategy string `yaml:"strategy" json:"strategy"`
	// Nodes are ordered and disjoint; together they cover layers 0…L−1 in order (gaps mean keep).
	Nodes []Node `yaml:"nodes" json:"nodes"`
}

// WholeLayers is true if some region is a layer, or several, and is recomputed.
func (p *Plan) WholeLayers() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool {
		return n.Segment || n.Option != nil && slices.ContainsFunc(n.Option.Regions, func(r Region) bool { return r.Span == "layer" && r.Offload != "saved" })
	})
}

// Kind is the named strategy whose graph a plan runs on (spec.Spec.DependsOnCheckpoint): none if no layer is treated, full
// if WholeLayers is true, else selective.
func (p *Plan) Kind() string {
	switch {
	case p.WholeLayers():
		return "full"
	case slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Option != nil && len(n.Option.Regions) > 0 }):
		return "selective"
	}
	return "none"
}

// Node is a leaf, one option applied to the layers First…Last each on its own, or, with Segment, one region over
// the layers First…Last together, inside which Inner says what is checkpointed again (nesting).
type Node struct {
	First   int     `yaml:"first" json:"first"`
	Last    int     `yaml:"last" json:"last"`
	Option  *Option `yaml:"option,omitempty" json:"option,omitempty"`
	Segment bool    `yaml:"segment,omitempty" json:"segment,omitempty"`
	Inner   []Node  `yaml:"inner,omitempty" json:"inner,omitempty"`
}

// Option is one way to treat a layer: disjoint regions inside it. Without regions it is keep; one region over
// "layer" that caches nothing is full.
type Option struct {
	// Name is the option's short name in menus and tables: keep, full, attn, core, mlp, …
	Name    string   `yaml:"name" json:"name"`
	Regions []Region `yaml:"regions,omitempty" json:"regions,omitempty"`
}

// Region is a contiguous part of a layer's forward under one checkpoint.
type Region struct {
	// Span names the part: layer, attn (attention sublayer), core (q, k, v → context), mlp, act (activation and the
	// projection that reads it), norm1 / norm2 (a norm with the projections that read it).
	Span string `yaml:"span" json:"span"`
	// Cache lists ops of the span whose outputs are kept instead of recomputed (selective checkpointing), by label.
	Cache []string `yaml:"cache,omitempty" json:"cache,omitempty"`
	// Offload: "saved" moves each tensor that autograd saves in the span to the host and recomputes nothing;
	// "inputs" checkpoints the span and holds its inputs on the host.
	Offload string `yaml:"offload,omitempty" json:"offload,omitempty"`
	// Window, with offload "saved", is the number of following blocks that may run before a copy to the host has left,
	// and before the copy back has arrived: copies run on a stream of their own. 0: the compute stream makes them.
	Window int `yaml:"window,omitempty" json:"window,omitempty"`
}
