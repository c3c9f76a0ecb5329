package model

import "strconv"

// vit is ViTForImageClassification with two classes or more. Source: transformers/models/vit/modeling_vit.py.
func (b *Builder) vit() {
	s := b.spec
	n, h := int64(s.B), int64(s.H)
	size, ch := int64(s.Image.Size), int64(s.Image.Channels)
	pixels := b.static("pixel_values", Input, b.dtype, Shape(n, ch, size, size))
	labels := b.static("labels", Input, I64, Shape(n))

	b.begin("embedding", None)
	x := b.vitEmbeddings("vit.embeddings.", pixels)
	embedded := x
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.vitLayer("vit.layers."+strconv.Itoa(i)+".", x)
		b.keep(embedded)
	}

	b.begin("head", None)
	last := b.norm(x, "vit.layernorm", h)
	b.keep(x, embedded)
	pooled := b.pick(last, 1, 0)
	logits := b.linear(pooled, b.weight("classifier.weight", int64(s.Labels), h), b.weight("classifier.bias", int64(s.Labels)))
	b.keepLogits(logits)
	b.g.Loss = b.crossEntropy(b.reshape(logits, n, int64(s.Labels)), labels)
	b.keep(last, pooled)
}

// vitEmbeddings is a convolution with one output a patch, the class token before it, and learned positions added.
func (b *Builder) vitEmbeddings(p string, pixels TensorID) TensorID {
	s := b.spec
	n, h := int64(s.B), int64(s.H)
	patch, ch := int64(s.Image.Patch), int64(s.Image.Channels)
	side := int64(s.Image.Size) / patch
	class := b.weight(p+"cls_token", 1, 1, h)
	positions := b.weight(p+"position_embeddings", 1, side*side+1, h)
	w := b.weight(p+"patch_embeddings.projection.weight", h, ch, patch, patch)
	x := b.conv2d(pixels, w, b.weight(p+"patch_embeddings.projection.bias", h), side)
	x = b.inputRequiresGrad(b.transpose(b.reshape(x, n, h, side*side), 1, 2))
	x = b.cat(1, b.expand(class, n, 1, h), x)
	x = b.add(x, positions)
	return b.dropout(x, s.Dropout.Embedding)
}

// conv2d is a convolution with a bias whose output has side × side pixels.
func (b *Builder) conv2d(x, w, bias TensorID, side int64) TensorID {
	lx, lw, lb := b.castLow(x), b.castLow(w), b.castLow(bias)
	dt, n := b.tensor(lx).DType, b.tensor(lx).Shape.D[0]
	out := Shape(n, b.tensor(lw).Shape.D[0], side, side)
	b.emit(OpConv2D, Attr{}, lx, lw, lb)
	return b.fresh(dt, out, Dims{})
}

func (b *Builder) vitLayer(p string, x TensorID) TensorID {
	s := b.spec
	h := int64(s.H)
	first := b.next()
	residual := x
	y := b.norm(x, p+"layernorm_before", h)
	a := b.vitAttention(p+"attention.", first, y)
	b.keep(y)
	y = b.add(b.dropout(a, s.Dropout.Residual), residual)

	norm2 := b.next()
	b.keep(residual)
	residual = y
	y = b.norm(y, p+"layernorm_after", h)
	down := b.mlp(p+"mlp.", "fc1", "fc2", norm2, y)
	out := b.add(b.dropout(down, s.Dropout.Residual), residual)
	b.keep(x)
	b.endLayer(first)
	return out
}

func (b *Builder) vitAttention(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.next()
	q := b.heads(p, "q_proj", x, h, a, d, s.Bias.QKV)
	k := b.heads(p, "k_proj", x, h, a, d, s.Bias.QKV)
	v := b.heads(p, "v_proj", x, h, a, d, s.Bias.QKV)
	b.span("norm1", norm)
	o := b.core(q, k, v, attention{mask: None, dropout: s.Dropout.Attention, groups: 1, fp32Softmax: true})
	o = b.contiguous(b.reshape(o, n, seq, a*d))
	out := b.project(p, "o_proj", o, a*d, h, s.Bias.Out)
	b.keep(x, q, k, v, o)
	b.span("attn", first)
	return out
}
