package model

// heads is a projection seen as [B, heads, S, d].
func (b *Builder) heads(p, name string, x TensorID, in, count, d int64, bias bool) TensorID {
	s := b.tensor(x).Shape
	return b.transpose(b.reshape(b.project(p, name, x, in, count*d, bias), s.D[0], s.D[1], count, d), 1, 2)
}

// mlp is down(act(up(x))); norm is where the norm before it starts, or None.
func (b *Builder) mlp(p, up, down string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	u := b.project(p, up, x, h, f, s.Bias.MLP)
	if norm >= 0 {
		b.span("norm2", norm)
	}
	act := b.next()
	y := b.activation(s.Activation, u)
	out := b.project(p, down, y, f, h, s.Bias.MLP)
	b.keep(y)
	b.span("act", act)
	b.keep(x)
	b.span("mlp", first)
	return out
}
