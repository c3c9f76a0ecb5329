package model

// masks are the attention masks that a decoder makes once a forward, or None where the kernel needs none.
type masks struct{ full, sliding TensorID }

// of is the mask of layer i.
func (m masks) of(s *Spec, i int) TensorID {
	if slides(s, i) {
		return m.sliding
	}
	return m.full
}

// slides is true for a layer that sees only the last SlidingWindow tokens.
func slides(s *Spec, i int) bool {
	if s.SlidingWindow == 0 {
		return false
	}
	return len(s.LayerTypes) == 0 || s.LayerTypes[i] == "sliding_attention"
}

// decoderMasks makes the masks of a causal decoder. Classes that type their layers make both masks whether or not a
// layer reads them; the others make one mask for all layers. SDPA's masks are boolean; it needs none for full attention,
// nor for a window that covers the sequence.
// Source: transformers/masking_utils.py, create_causal_mask, create_sliding_window_causal_mask, sdpa_mask.
func (b *Builder) decoderMasks(positions TensorID) masks {
	s := b.spec
	m := masks{None, None}
	if s.Attention == "flash2" {
		return m
	}
	eager := s.Attention == "eager"
	typed := len(s.LayerTypes) > 0
	if eager && (typed || s.SlidingWindow == 0) {
		m.full = b.causalMask(positions)
	}
	switch {
	case s.SlidingWindow > 0 && eager:
		m.sliding = b.plain("aten.where", b.actDType(), Shape(int64(s.B), 1, int64(s.S), int64(s.S)), b.windowMask(positions))
	case s.SlidingWindow > 0 && s.S >= s.SlidingWindow:
		m.sliding = b.expand(b.windowMask(positions), int64(s.B), 1, int64(s.S), int64(s.S))
	}
	return m
}

// windowMask is and(and(true, kv > q − window), kv ≤ q), [1, 1, S, S].
func (b *Builder) windowMask(positions TensorID) TensorID {
	n := int64(b.spec.S)
	square := Shape(1, 1, n, n)
	all := b.plain("aten.new_ones", Bool, Dims{})
	from := b.withScalar(b.plain("aten.sub", I64, Shape(1, 1, n, 1), positions), float64(b.spec.SlidingWindow))
	in := b.plain("aten.bitwise_and", Bool, square, all, b.plain("aten.gt", Bool, square, from))
	past := b.plain("aten.le", Bool, square, positions)
	return b.plain("aten.bitwise_and", Bool, square, in, past)
}
