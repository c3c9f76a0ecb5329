package model

// gemma is GemmaForCausalLM. Source: transformers/models/gemma/modeling_gemma.py.
func (b *Builder) gemma() {
	d := llamaClass()
	d.embed, d.norm = (*Builder).scaleEmbedding, (*Builder).gemmaNorm
	b.decoder(d)
}

// gemma2 has norms before and after each sublayer. Source: transformers/models/gemma2/modeling_gemma2.py.
func (b *Builder) gemma2() {
	d := llamaClass()
	d.embed, d.norm = (*Builder).scaleEmbedding, (*Builder).gemmaNorm
	d.norms = [4]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}
	b.decoder(d)
}

// scaleEmbedding multiplies by a buffer of one element.
func (b *Builder) scaleEmbedding(x TensorID) TensorID {
	return b.mul(x, b.static("embed_scale", Buffer, b.dtype, Dims{}))
}

// gemmaNorm is GemmaRMSNorm:
//
//	output = x.float() * rsqrt(mean(x.float()²) + ε); return (output * (1.0 + weight.float())).type_as(x)
func (b *Builder) gemmaNorm(x TensorID, name string, h int64) TensorID {
	w := b.weight(name+".weight", h)
	f := b.to(x, F32)
	r := b.unary(OpRsqrt, b.withScalar(b.addScalar(b.mean(b.withScalar(b.pow(f), 2))), b.spec.rmsNormEps()))
	normed := b.mul(f, r)
	out := b.mul(normed, b.withScalar(b.addScalar(b.to(w, F32)), 1))
	b.keep(normed)
	res := b.to(out, b.tensor(x).DType)
	b.keep(x, out)
	return res
}
