package plan

import (
	"fmt"

	"ckptplan/internal/model/graph"
)

// Resolved is a plan's node with everything resolved: a segment, or regions inside each of its layers.
type Resolved struct {
	First   int              `json:"first"`
	Last    int              `json:"last"`
	Segment bool             `json:"segment,omitempty"`
	Inner   []Resolved       `json:"inner,omitempty"`
	Regions []ResolvedRegion `json:"regions,omitempty"`
}

// ResolvedRegion is one region of a layer: a part by name, and what is kept of it all the same.
type ResolvedRegion struct {
	Span    string     `json:"span"`
	Offload string     `json:"offload,omitempty"`
	Cached  []CachedOp `json:"cached,omitempty"`
}

// CachedOp is an op whose output a region keeps, as a policy that sees one call after the other recognises it: the
// ATen name, and how many calls of that name come before it in the region.
type CachedOp struct {
	Op      string `json:"op"`
	Ordinal int    `json:"ordinal"`
}

// Resolve looks every region of a plan up in the graph that it runs on.
func Resolve(g *graph.Graph, ns []Node) ([]Resolved, error) {
	var out []Resolved
	for _, n := range ns {
		switch {
		case n.Segment:
			inner, err := Resolve(g, n.Inner)
			if err != nil {
				return nil, err
			}
			out = append(out, Resolved{First: n.First, Last: n.Last, Segment: true, Inner: inner})
		case n.Option != nil && len(n.Option.Regions) > 0:
			for l := n.First; l <= n.Last; l++ { // cached ops are the layer's own
				regions, err := resolveRegions(g, l, n.Option.Regions)
				if err != nil {
					return nil, err
				}
				out = append(out, Resolved{First: l, Last: l, Regions: regions})
			}
		}
	}
	return out, nil
}

func resolveRegions(g *graph.Graph, layer int, rs []Region) ([]ResolvedRegion, error) {
	var out []ResolvedRegion
	for _, r := range rs {
		span, ok := g.Span(layer, r.Span)
		if !ok {
			return nil, fmt.Errorf("layer %d has no part %q", layer, r.Span)
		}
		t := ResolvedRegion{Span: r.Span, Offload: r.Offload}
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
				t.Cached = append(t.Cached, CachedOp{Op: g.Aten(op), Ordinal: g.Ordinal(span.First, op)})
			}
		}
		out = append(out, t)
	}
	return out, nil
}
