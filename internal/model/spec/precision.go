package spec

import "ckptplan/internal/model/dtype"

// WeightType is the element type of the parameters.
func (s *Spec) WeightType() dtype.DType {
	if s.Weights != "" {
		return dtype.Precision(s.Weights).Weights()
	}
	return s.Precision.Weights()
}

// AutocastType is the type that autocast casts to, and whether autocast is on.
func (s *Spec) AutocastType() (dtype.DType, bool) {
	switch s.Autocast {
	case "":
		return s.Precision.Autocast()
	case "off":
		return dtype.F32, false
	}
	return dtype.Precision(s.Autocast).Weights(), true
}

// SettlePrecision writes the settings in one way: the precision that has their name, or, where none has (16-bit weights
// under autocast), that of the weights and Autocast.
func (s *Spec) SettlePrecision() {
	w := s.WeightType()
	low, on := s.AutocastType()
	s.Weights, s.Autocast = "", ""
	for _, p := range precisions {
		p := dtype.Precision(p)
		if l, amp := p.Autocast(); p.Weights() == w && amp == on && l == low {
			s.Precision = p
			return
		}
	}
	s.Precision, s.Autocast = pure[w], string(pure[low])
}

// pure are the precisions of weights and activations alike.
var pure = map[dtype.DType]dtype.Precision{dtype.F32: dtype.FP32, dtype.BF16: dtype.PureBF, dtype.F16: dtype.PureFP}

// PrecisionName is the precision's name, such as amp-bf16; 16-bit weights under autocast are bf16+amp-bf16.
func (s *Spec) PrecisionName() string {
	if s.Autocast == "" {
		return string(s.Precision)
	}
	return string(s.Precision) + "+amp-" + s.Autocast
}
