package model

var gemma = class{
	arch: "gemma", own: []string{"norm"}, heads: []string{"GemmaForCausalLM"},
	modules: attnFirst,
	spec: Spec{
		L: 28, H: 3072, Heads: 16, KVHeads: 16, HeadDim: 256, FFN: 24576, Vocab: 256000, MaxS: 8192, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "gelu_tanh", Gated: true, Positions: "rotary", Rotary: 1, Tied: true,
	},
	keys:    concat(sizeKeys, groupKeys, tiedKey, attnBias),
	only:    []hfOnly{{"use_bidirectional_attention", "false"}},
	forward: forward.gemma,
	linears: gatedLinears,
	targets: qvTargets,
	parts:   gatedParts,
}

// gemma is GemmaForCausalLM. Source: transformers/models/gemma/modeling_gemma.py.
func (b forward) gemma() {
	d := llamaClass()
	d.embed, d.norm = forward.scaleEmbedding, forward.gemmaNorm
	b.decoder(d)
}

// scaleEmbedding multiplies by a buffer of one element.
func (b forward) scaleEmbedding(x TensorID) TensorID {
	return b.mul(x, b.static("embed_scale", Buffer, b.dtype, Dims{}))
}

// gemmaNorm is GemmaRMSNorm:
//
//	output = x.float() * rsqrt(mean(x.float()²) + ε); return (output * (1.0 + weight.float())).type_as(x)
func (b forward) gemmaNorm(x TensorID, name string, h int64) TensorID {
	w := b.weight(name+".weight", h)
	f := b.to(x, F32)
	r := b.unary(OpRsqrt, b.withScalar(b.addScalar(b.mean(b.withScalar(b.pow(f), 2))), b.constants.RMSNormEps))
	normed := b.mul(f, r)
	out := b.mul(normed, b.withScalar(b.addScalar(b.to(w, F32)), 1))
	b.keep(normed)
	res := b.to(out, b.tensor(x).DType)
	b.keep(x, out)
	return res
}
