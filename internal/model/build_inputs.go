package model

import (
	"math"
	"strings"
)

// fill is what a buffer or an input of that name holds. Token ids keep clear of padding, which is 0 or 1 and takes no
// gradient.
func (b *Builder) fill(name string, dt DType) Fill {
	s := b.spec
	switch {
	case strings.HasSuffix(name, "inv_freq"):
		return Fill{Base: b.constants.RotaryBase}
	case name == "embed_scale": // Gemma
		return Fill{Constant: math.Sqrt(float64(s.H))}
	case dt != I64:
		return Fill{}
	case name == "position_ids":
		return Fill{Count: true}
	case name == "token_type_ids": // one type
		return Fill{Below: 1}
	case name == "start_positions" || name == "end_positions":
		return Fill{Below: int64(s.S)}
	case (name == "labels" || name == "target") && s.Labels > 0:
		return Fill{Below: int64(s.Labels)}
	case name == "input_ids" && s.Vocab > 2:
		return Fill{From: 2, Below: int64(s.Vocab)}
	}
	return Fill{Below: int64(max(1, s.Vocab))}
}

// SpecOf is the spec that a graph was built from.
func SpecOf(g *Graph) *Spec {
	s, _ := g.Step.Origin.(*Spec)
	return s
}
