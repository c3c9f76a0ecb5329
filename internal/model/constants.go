package model

// Numbers that a spec does not hold, since they change no byte: the defaults of Hugging Face's classes.
const (
	attnSoftcap     = 50     // Gemma 2's attn_logit_softcapping
	logitSoftcap    = 30     // Gemma 2's final_logit_softcapping
	logitFactor     = 0.0625 // Cohere's logit_scale
	embeddingFactor = 12     // Granite's embedding_multiplier
	residualFactor  = 0.22   // Granite's residual_multiplier
)

// rmsNormEps is ε of the class's RMS norms.
func (s *Spec) rmsNormEps() float64 {
	switch s.Arch {
	case "phi3", "olmo2":
		return 1e-5
	}
	return 1e-6
}

// layerNormEps is ε of the class's layer norms.
func (s *Spec) layerNormEps() float64 {
	switch s.Arch {
	case "bert", "roberta", "vit":
		return 1e-12
	}
	return 1e-5
}
