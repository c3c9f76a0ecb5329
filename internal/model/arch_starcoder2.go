package model

// starcoder2 is Starcoder2ForCausalLM: LayerNorm, biases, a plain MLP, dropout inside both sublayers.
// Source: transformers/models/starcoder2/modeling_starcoder2.py.
func (b *Builder) starcoder2() {
	d := llamaClass()
	d.attnDropout, d.mlp = true, (*Builder).starcoderMLP
	b.decoder(d)
}

// starcoderMLP is dropout(c_proj(act(c_fc(x)))).
func (b *Builder) starcoderMLP(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	u := b.project(p, "c_fc", x, h, f, s.Bias.MLP)
	b.span("norm2", norm)
	act := b.next()
	y := b.activation(s.Activation, u)
	o := b.project(p, "c_proj", y, f, h, s.Bias.MLP)
	b.keep(y)
	b.span("act", act)
	out := b.dropout(o, s.Dropout.Residual)
	b.keep(o, x)
	b.span("mlp", first)
	return out
}
