package class

import "ckptplan/internal/model/spec"

var mt5 = mt5Of(t5)

// mt5Of is T5 v1.1 in many languages: a gated MLP, and an output that is not scaled although the head is tied.
// Source: transformers/models/mt5/modeling_mt5.py, configuration_mt5.py.
func mt5Of(c Class) Class {
	c.Arch, c.Heads = "mt5", []string{"MT5ForConditionalGeneration"}
	s := &c.Spec
	s.L, s.DecoderL, s.Heads, s.FFN, s.Vocab = 8, 8, 6, 1024, 250112
	s.Gated, s.Activation, s.LogitScale = true, "gelu_new", false
	c.varies = []string{"decoder_S"}
	c.Derive = func(c *Config, s *spec.Spec) {
		t5Config(c, s)
		s.LogitScale = false
	}
	c.encode = nil
	return c
}
