package model

// olmo2 is Olmo2ForCausalLM: norms on what a sublayer gives, inside the residual, and on the whole width of q and k.
// Source: transformers/models/olmo2/modeling_olmo2.py.
func (b *Builder) olmo2() {
	d := llamaClass()
	d.norm, d.heads, d.rotate, d.floatTable = (*Builder).olmoNorm, (*Builder).olmoHeads, (*Builder).olmoRotate, true
	d.norms = [4]string{"", "post_attention_layernorm", "", "post_feedforward_layernorm"}
	b.decoder(d)
}

// olmoNorm is Olmo2RMSNorm, whose product with the weight is in fp32:
//
//	x = x.to(float32); x = x * rsqrt(mean(x²) + ε); return (weight * x).to(dtype)
func (b *Builder) olmoNorm(x TensorID, name string, h int64) TensorID {
	w := b.weight(name+".weight", h)
	normed, variance := b.rms(x)
	out := b.to(b.mul(w, normed), b.tensor(x).DType)
	b.keep(normed, variance, x)
	return out
}

func (b *Builder) olmoHeads(d *decoder, p string, x TensorID) (q, k, v TensorID) {
	s := b.spec
	project := func(name string, heads int) TensorID {
		return b.project(p, name+"_proj", x, int64(s.H), int64(heads*s.HeadDim), s.Bias.QKV)
	}
	normed := func(name string, heads int) TensorID {
		y := project(name, heads)
		z := d.norm(b, y, p+name+"_norm", int64(heads*s.HeadDim))
		b.keep(y)
		return z
	}
	q, k, v = normed("q", s.Heads), normed("k", s.KVHeads), project("v", s.KVHeads)
	split := func(x TensorID, heads int) TensorID { return b.transpose(b.toHeads(x, heads), 1, 2) }
	return split(q, s.Heads), split(k, s.KVHeads), split(v, s.KVHeads)
}

// olmoRotate rotates in fp32, as its tables are, and casts back.
func (b *Builder) olmoRotate(q, k, cos, sin TensorID) (TensorID, TensorID) {
	rq, rk := b.rotateBoth(q, k, cos, sin)
	outQ, outK := b.to(rq, b.tensor(q).DType), b.to(rk, b.tensor(k).DType)
	b.keep(q, k, rq, rk)
	return outQ, outK
}
