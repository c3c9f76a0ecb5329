package build

import "ckptplan/internal/model/graph"

// Heads is a projection seen as [B, heads, S, d].
func (b *Builder) Heads(p, name string, x graph.TensorID, in, count, d int64, bias bool) graph.TensorID {
	s := b.Tensor(x).Shape
	return b.Transpose(b.Reshape(b.Project(p, name, x, in, count*d, bias), s.D[0], s.D[1], count, d), 1, 2)
}

// Mlp is down(act(up(x))); norm is where the norm before it starts, or None.
func (b *Builder) Mlp(p, up, down string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	u := b.Project(p, up, x, h, f, s.Bias.MLP)
	if norm >= 0 {
		b.Span("norm2", norm)
	}
	act := b.Next()
	y := b.Activation(s.Activation, u)
	out := b.Project(p, down, y, f, h, s.Bias.MLP)
	b.Keep(y)
	b.Span("act", act)
	b.Keep(x)
	b.Span("mlp", first)
	return out
}
