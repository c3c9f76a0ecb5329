package build

import "cmp"

// Numbers that a spec does not hold, since they change no byte: the defaults of Hugging Face's classes.
const (
	AttnSoftcap     = 50     // Gemma 2's attn_logit_softcapping
	LogitSoftcap    = 30     // Gemma 2's final_logit_softcapping
	logitFactor     = 0.0625 // Cohere's logit_scale
	EmbeddingFactor = 12     // Granite's embedding_multiplier
	ResidualFactor  = 0.22   // Granite's residual_multiplier
)

// Constants are such numbers that belong to a class.
type Constants struct {
	RMSNormEps, LayerNormEps float64 // ε of its norms; 0: 1e-6 and 1e-5
	RotaryBase               float64 // θ; 0: 10,000
	// Interleaved: each angle of the rotary table stands beside itself, not the row of angles beside itself.
	Interleaved bool
	// Single: each angle stands once (gpt-oss).
	Single bool
}

// orDefaults are the constants with the usual values in place of zeros.
func (c Constants) orDefaults() Constants {
	c.RMSNormEps = cmp.Or(c.RMSNormEps, 1e-6)
	c.LayerNormEps = cmp.Or(c.LayerNormEps, 1e-5)
	c.RotaryBase = cmp.Or(c.RotaryBase, 10_000)
	return c
}
