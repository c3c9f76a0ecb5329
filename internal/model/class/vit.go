package class

import (
	"strconv"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var vit = Class{
	Arch: "vit", Heads: []string{"ViTForImageClassification"},
	Modules: []string{"attention.", "layernorm_", ""},
	Spec: spec.Spec{
		L: 12, H: 768, Heads: 12, FFN: 3072, Norm: "layernorm", NormOrder: "pre", Activation: "gelu", Positions: "learned",
		Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}, Image: &spec.Image{Size: 224, Patch: 16, Channels: 3}, Labels: 2,
	},
	Keys: Concat(sizeKeys[:3], sizeKeys[4:6], bertDropouts, []hfKey{
		{"image_size", "image.size"}, {"patch_size", "image.patch"}, {"num_channels", "image.channels"}, {"qkv_bias", "bias.qkv"}, {"num_labels", "labels"},
	}),
	Only:      []hfOnly{{"problem_type", "single_label_classification"}},
	Forward:   Forward.vit,
	Linears:   []string{"q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"},
	Targets:   qvTargets,
	Constants: build.Constants{LayerNormEps: 1e-12},
	Derive:    vitConfig,
	parts: parts{
		"attn": module("attention"), "mlp": module("mlp"), "core": core("attention"), "norm1": fan("layernorm_before", "attention", qkv...),
		"norm2": fan("layernorm_after", "mlp", "fc1"), "act": fan("mlp.activation_fn", "mlp", "fc2"),
	},
	auto: "AutoModelForImageClassification",
}

// vit is ViTForImageClassification with two classes or more. Source: transformers/models/vit/modeling_vit.py.
func (b Forward) vit() {
	s := b.Spec
	n, h := int64(s.B), int64(s.H)
	size, ch := int64(s.Image.Size), int64(s.Image.Channels)
	pixels := b.Static("pixel_values", graph.Input, b.Dtype, graph.Shape(n, ch, size, size))
	labels := b.Static("labels", graph.Input, dtype.I64, graph.Shape(n))

	b.Begin("embedding", graph.None)
	x := b.vitEmbeddings("vit.embeddings.", pixels)
	embedded := x
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.vitLayer("vit.layers."+strconv.Itoa(i)+".", x)
		b.Keep(embedded)
	}

	b.Begin("head", graph.None)
	last := b.Norm(x, "vit.layernorm", h)
	b.Keep(x, embedded)
	pooled := b.Pick(last, 1, 0)
	logits := b.Linear(pooled, b.Weight("classifier.weight", int64(s.Labels), h), b.Weight("classifier.bias", int64(s.Labels)))
	b.KeepLogits(logits)
	b.G.Loss = b.CrossEntropy(b.Reshape(logits, n, int64(s.Labels)), labels)
	b.Keep(last, pooled)
}

// vitEmbeddings is a convolution with one output a patch, the class token before it, and learned positions added.
func (b Forward) vitEmbeddings(p string, pixels graph.TensorID) graph.TensorID {
	s := b.Spec
	n, h := int64(s.B), int64(s.H)
	patch, ch := int64(s.Image.Patch), int64(s.Image.Channels)
	side := int64(s.Image.Size) / patch
	class := b.Weight(p+"cls_token", 1, 1, h)
	positions := b.Weight(p+"position_embeddings", 1, side*side+1, h)
	w := b.Weight(p+"patch_embeddings.projection.weight", h, ch, patch, patch)
	x := b.conv2d(pixels, w, b.Weight(p+"patch_embeddings.projection.bias", h), side)
	x = b.InputRequiresGrad(b.Transpose(b.Reshape(x, n, h, side*side), 1, 2))
	x = b.Cat(1, b.Expand(class, n, 1, h), x)
	x = b.Add(x, positions)
	return b.Dropout(x, s.Dropout.Embedding)
}

// conv2d is a convolution with a bias whose output has side × side pixels.
func (b Forward) conv2d(x, w, bias graph.TensorID, side int64) graph.TensorID {
	lx, lw, lb := b.CastLow(x), b.CastLow(w), b.CastLow(bias)
	dt, n := b.Tensor(lx).DType, b.Tensor(lx).Shape.D[0]
	out := graph.Shape(n, b.Tensor(lw).Shape.D[0], side, side)
	b.Emit(graph.OpConv2D, graph.Attr{}, lx, lw, lb)
	return b.Fresh(dt, out, graph.Dims{})
}

func (b Forward) vitLayer(p string, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h := int64(s.H)
	first := b.Next()
	residual := x
	y := b.Norm(x, p+"layernorm_before", h)
	a := b.vitAttention(p+"attention.", first, y)
	b.Keep(y)
	y = b.Add(b.Dropout(a, s.Dropout.Residual), residual)

	norm2 := b.Next()
	b.Keep(residual)
	residual = y
	y = b.Norm(y, p+"layernorm_after", h)
	down := b.Mlp(p+"mlp.", "fc1", "fc2", norm2, y)
	out := b.Add(b.Dropout(down, s.Dropout.Residual), residual)
	b.Keep(x)
	b.EndLayer(first)
	return out
}

func (b Forward) vitAttention(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	first := b.Next()
	q := b.Heads(p, "q_proj", x, h, a, d, s.Bias.QKV)
	k := b.Heads(p, "k_proj", x, h, a, d, s.Bias.QKV)
	v := b.Heads(p, "v_proj", x, h, a, d, s.Bias.QKV)
	b.Span("norm1", norm)
	o := b.Core(q, k, v, build.Attention{Mask: graph.None, Dropout: s.Dropout.Attention, Groups: 1, Fp32Softmax: true})
	o = b.Contiguous(b.Reshape(o, n, seq, a*d))
	out := b.Project(p, "o_proj", o, a*d, h, s.Bias.Out)
	b.Keep(x, q, k, v, o)
	b.Span("attn", first)
	return out
}

func vitConfig(c *Config, s *spec.Spec) { c.labels(s) }
