package build

import (
	"math"
	"strings"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// fill is what a buffer or an input of that name holds. Token ids keep clear of padding, which is 0 or 1 and takes no
// gradient.
func (b *Builder) fill(name string, dt dtype.DType) graph.Fill {
	s := b.Spec
	switch {
	case strings.HasSuffix(name, "inv_freq"):
		return graph.Fill{Base: b.Constants.RotaryBase}
	case name == "embed_scale": // Gemma
		return graph.Fill{Constant: math.Sqrt(float64(s.H))}
	case dt != dtype.I64:
		return graph.Fill{}
	case name == "position_ids":
		return graph.Fill{Count: true}
	case name == "token_type_ids": // one type
		return graph.Fill{Below: 1}
	case name == "start_positions" || name == "end_positions":
		return graph.Fill{Below: int64(s.S)}
	case (name == "labels" || name == "target") && s.Labels > 0:
		return graph.Fill{Below: int64(s.Labels)}
	case name == "input_ids" && s.Vocab > 2:
		return graph.Fill{From: 2, Below: int64(s.Vocab)}
	}
	return graph.Fill{Below: int64(max(1, s.Vocab))}
}

// SpecOf is the spec that a graph was built from.
func SpecOf(g *graph.Graph) *spec.Spec {
	s, _ := g.Step.Origin.(*spec.Spec)
	return s
}
