package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Options by name: how one layer is treated by the named strategies.
var (
	Keep = Option{Name: "keep"}
	Full = Option{Name: "full", Regions: []Region{{Span: "layer"}}}
)

// Named is the plan of a named strategy over L layers; underscores and hyphens are the same.
//
//	none, full              no layer; every layer its own region
//	every-K                 layers 0, K, 2K …
//	first-K, last-K         the first or last K layers
//	segments-K, sqrt        groups of K (round √L) consecutive layers, each group one region
//	nested-K                segments-K, and every layer inside is a region of its own
//	selective(-attn, -mlp)  the attention core (attention sublayer, MLP) of every layer
//	offload, offload-inputs saved tensors, or the inputs of checkpointed layers, on the host
func Named(name string, layers int) (*Plan, error) {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	p := &Plan{Strategy: name}
	all := func(o Option) *Plan {
		p.Nodes = []Node{{First: 0, Last: layers - 1, Option: &o}}
		return p
	}
	span := func(o, s string) Option { return Option{Name: o, Regions: []Region{{Span: s}}} }
	switch name {
	case "none":
		return p, nil
	case "full":
		return all(Full), nil
	case "selective":
		return all(span("core", "core")), nil
	case "selective-attn":
		return all(span("attn", "attn")), nil
	case "selective-mlp":
		return all(span("mlp", "mlp")), nil
	case "offload":
		return all(Option{Name: "offload", Regions: []Region{{Span: "layer", Offload: "saved"}}}), nil
	case "offload-inputs":
		return all(Option{Name: "offload-inputs", Regions: []Region{{Span: "layer", Offload: "inputs"}}}), nil
	case "sqrt":
		return segments(p, layers, int(math.Round(math.Sqrt(float64(layers)))), false), nil
	}
	base, num, ok := cutLast(name)
	k, err := strconv.Atoi(num)
	if !ok || err != nil || strconv.Itoa(k) != num { // every-02 would be another name of every-2
		return nil, &UnknownStrategyError{Name: name}
	}
	switch base {
	case "every", "first", "last", "segments", "nested":
		if k < 1 || k > layers {
			return nil, fmt.Errorf("strategy %s: K must be 1 to %d, the number of layers", name, layers)
		}
	}
	full := Full
	switch base {
	case "every":
		for i := 0; i < layers; i += k {
			p.Nodes = append(p.Nodes, Node{First: i, Last: i, Option: &full})
		}
	case "first":
		p.Nodes = []Node{{First: 0, Last: k - 1, Option: &full}}
	case "last":
		p.Nodes = []Node{{First: layers - k, Last: layers - 1, Option: &full}}
	case "segments":
		segments(p, layers, k, false)
	case "nested":
		segments(p, layers, k, true)
	default:
		return nil, &UnknownStrategyError{Name: name}
	}
	return p, nil
}

func cutLast(s string) (base, last string, ok bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func segments(p *Plan, layers, k int, each bool) *Plan {
	full := Full
	for i := 0; i < layers; i += k {
		n := Node{First: i, Last: min(i+k, layers) - 1, Segment: true}
		if each {
			n.Inner = []Node{{First: n.First, Last: n.Last, Option: &full}}
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

// UnknownStrategyError is returned for a name that is not a strategy.
type UnknownStrategyError struct{ Name string }

func (e *UnknownStrategyError) Error() string {
	return fmt.Sprintf("unknown strategy %q (none, full, every-K, first-K, last-K, segments-K, sqrt, nested-K, selective, selective-attn, selective-mlp, offload, offload-inputs, or a plan file)", e.Name)
}
