package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// Masks are the attention masks that a decoder makes once a forward, or None where the kernel needs none.
type Masks struct{ Full, Sliding graph.TensorID }

// Of is the mask of layer i.
func (m Masks) Of(s *spec.Spec, i int) graph.TensorID {
	if Slides(s, i) {
		return m.Sliding
	}
	return m.Full
}

// Slides is true for a layer that sees only the last SlidingWindow tokens.
func Slides(s *spec.Spec, i int) bool {
	if s.SlidingWindow == 0 {
		return false
	}
	return len(s.LayerTypes) == 0 || s.LayerTypes[i] == "sliding_attention"
}

// DecoderMasks makes the masks of a causal decoder. Classes that type their layers make both masks whether or not a
// layer reads them; the others make one mask for all layers. SDPA's masks are boolean; it needs none for full attention,
// nor for a window that covers the sequence. windowless: the second mask is made without a window too.
// Source: transformers/masking_utils.py, create_causal_mask, create_sliding_window_causal_mask, sdpa_mask.
func (b *Builder) DecoderMasks(positions graph.TensorID, windowless bool) Masks {
	s := b.Spec
	m := Masks{graph.None, graph.None}
	if s.Attention == "flash2" {
		return m
	}
	eager := s.Attention == "eager"
	typed := len(s.LayerTypes) > 0
	if eager && (typed || s.SlidingWindow == 0) {
		m.Full = b.CausalMask(positions)
	}
	switch {
	case s.SlidingWindow == 0 && !windowless:
	case eager:
		m.Sliding = b.Plain("aten.where", b.ActDType(), graph.Shape(int64(s.B), 1, int64(s.S), int64(s.S)), b.windowMask(positions))
	case s.S >= s.SlidingWindow:
		m.Sliding = b.Expand(b.windowMask(positions), int64(s.B), 1, int64(s.S), int64(s.S))
	}
	return m
}

// windowMask is and(and(true, kv > q − window), kv ≤ q), [1, 1, S, S].
func (b *Builder) windowMask(positions graph.TensorID) graph.TensorID {
	n := int64(b.Spec.S)
	square := graph.Shape(1, 1, n, n)
	all := b.Plain("aten.new_ones", dtype.Bool, graph.Dims{})
	from := b.WithScalar(b.Plain("aten.sub", dtype.I64, graph.Shape(1, 1, n, 1), positions), float64(b.Spec.SlidingWindow))
	in := b.Plain("aten.bitwise_and", dtype.Bool, square, all, b.Plain("aten.gt", dtype.Bool, square, from))
	past := b.Plain("aten.le", dtype.Bool, square, positions)
	return b.Plain("aten.bitwise_and", dtype.Bool, square, in, past)
}
