package torch

import (
	"encoding/json"
	"fmt"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// torchJob is what the runner reads.
type torchJob struct {
	Device string          `json:"device"`
	Spec   *spec.Spec      `json:"spec"`
	Module *class.Module   `json:"module,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
	Nodes  []torchNode     `json:"nodes"`
	Plain  bool            `json:"plain,omitempty"`
	Warmup int             `json:"warmup"`
	Steps  int             `json:"steps"`
	Enough int64           `json:"enough_ns,omitempty"`
	Seed   int64           `json:"seed"`
	Values bool            `json:"values"`
	Need   unit.Bytes      `json:"need_bytes,omitempty"`
	Force  bool            `json:"force,omitempty"`
	Limit  float64         `json:"limit,omitempty"`
	Plant  string          `json:"plant,omitempty"`
}

// torchNode is a plan's node with everything resolved: a segment, or regions inside each of its layers.
type torchNode struct {
	First   int           `json:"first"`
	Last    int           `json:"last"`
	Segment bool          `json:"segment,omitempty"`
	Inner   []torchNode   `json:"inner,omitempty"`
	Regions []torchRegion `json:"regions,omitempty"`
}

type torchRegion struct {
	Span    string     `json:"span"`
	Offload string     `json:"offload,omitempty"`
	Cached  []cachedOp `json:"cached,omitempty"`
}

// cachedOp is an op whose output a region keeps, as a policy that sees one call after the other recognises it: the
// ATen name, and how many calls of that name come before it in the region.
type cachedOp struct {
	Op      string `json:"op"`
	Ordinal int    `json:"ordinal"`
}

func newJob(o Options) (*torchJob, error) {
	spec := build.SpecOf(o.Graph)
	j := &torchJob{
		Device: o.Device, Spec: spec, Module: class.ModuleOf(spec), Config: o.Config, Plain: o.Plain, Warmup: max(1, o.Warmup), Steps: o.Steps, Enough: o.Enough.Nanoseconds(), Seed: o.Seed, Values: o.Values,
		Need: o.Need, Force: o.Force, Limit: o.Limit, Plant: o.plant, Nodes: []torchNode{},
	}
	if o.Plan == nil {
		return j, nil
	}
	nodes, err := resolve(o.Graph, o.Plan.Nodes)
	if err != nil {
		return nil, err
	}
	j.Nodes = append(j.Nodes, nodes...)
	return j, nil
}

func resolve(g *graph.Graph, ns []plan.Node) ([]torchNode, error) {
	var out []torchNode
	for _, n := range ns {
		switch {
		case n.Segment:
			inner, err := resolve(g, n.Inner)
			if err != nil {
				return nil, err
			}
			out = append(out, torchNode{First: n.First, Last: n.Last, Segment: true, Inner: inner})
		case n.Option != nil && len(n.Option.Regions) > 0:
			for l := n.First; l <= n.Last; l++ { // cached ops are the layer's own
				regions, err := resolveRegions(g, l, n.Option.Regions)
				if err != nil {
					return nil, err
				}
				out = append(out, torchNode{First: l, Last: l, Regions: regions})
			}
		}
	}
	return out, nil
}

func resolveRegions(g *graph.Graph, layer int, rs []plan.Region) ([]torchRegion, error) {
	var out []torchRegion
	for _, r := range rs {
		span, ok := g.Span(layer, r.Span)
		if !ok {
			return nil, fmt.Errorf("layer %d has no part %q", layer, r.Span)
		}
		t := torchRegion{Span: r.Span, Offload: r.Offload}
		if len(r.Cache) > 0 {
			whole, _ := g.Span(layer, "layer")
			at := map[string]graph.OpID{}
			for i, label := range g.Labels(whole.First, whole.End) {
				at[label] = whole.First + graph.OpID(i)
			}
			for _, label := range r.Cache {
				op, ok := at[label]
				if !ok || op < span.First || op >= span.End {
					return nil, fmt.Errorf("layer %d: part %q has no op %q", layer, r.Span, label)
				}
				t.Cached = append(t.Cached, cachedOp{Op: g.Aten(op), Ordinal: g.Ordinal(span.First, op)})
			}
		}
		out = append(out, t)
	}
	return out, nil
}
