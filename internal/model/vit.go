package model

import "strconv"

var vit = class{
	arch: "vit", heads: []string{"ViTForImageClassification"},
	modules: []string{"attention.", "layernorm_", ""},
	spec: Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Norm: "layernorm", NormOrder: "pre", Activation: "gelu", Positions: "learned",
		Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}, Image: &Image{Size: 224, Patch: 16, Channels: 3}, Labels: 2,
	},
	keys: concat(sizeKeys[:3], sizeKeys[4:6], bertDropouts, []hfKey{
		{"image_size", "image.size"}, {"patch_size", "image.patch"}, {"num_channels", "image.channels"}, {"qkv_bias", "bias.qkv"}, {"num_labels", "labels"},
	}),
	only:      []hfOnly{{"problem_type", "single_label_classification"}},
	forward:   forward.vit,
	linears:   []string{"q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"},
	targets:   qvTargets,
	constants: Constants{LayerNormEps: 1e-12},
	derive:    vitConfig,
	parts: parts{
		"attn": module("attention"), "mlp": module("mlp"), "core": core("attention"), "norm1": fan("layernorm_before", "attention", qkv...),
		"norm2": fan("layernorm_after", "mlp", "fc1"), "act": fan("mlp.activation_fn", "mlp", "fc2"),
	},
	auto: "AutoModelForImageClassification",
}

// vit is ViTForImageClassification with two classes or more. Source: transformers/models/vit/modeling_vit.py.
func (b forward) vit() {
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
func (b forward) vitEmbeddings(p string, pixels TensorID) TensorID {
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
func (b forward) conv2d(x, w, bias TensorID, side int64) TensorID {
	lx, lw, lb := b.castLow(x), b.castLow(w), b.castLow(bias)
	dt, n := b.tensor(lx).DType, b.tensor(lx).Shape.D[0]
	out := Shape(n, b.tensor(lw).Shape.D[0], side, side)
	b.emit(OpConv2D, Attr{}, lx, lw, lb)
	return b.fresh(dt, out, Dims{})
}

func (b forward) vitLayer(p string, x TensorID) TensorID {
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

func (b forward) vitAttention(p string, norm OpID, x TensorID) TensorID {
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

func vitConfig(c *config, s *Spec) { c.labels(s) }
