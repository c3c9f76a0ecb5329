package model

var olmo2 = class{
	arch: "olmo2", own: []string{"norm"}, heads: []string{"Olmo2ForCausalLM"}, wide: true,
	modules: attnFirst,
	spec: Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 50304, MaxS: 2048, Norm: "rmsnorm", NormOrder: "post", QKNorm: true,
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	keys:      concat(sizeKeys, groupKeys, tiedKey, attnBias),
	forward:   forward.olmo2,
	linears:   gatedLinears,
	targets:   qvTargets,
	constants: Constants{RMSNormEps: 1e-5},
	parts:     parts{"attn": module("self_attn"), "core": core("self_attn"), "mlp": module("mlp"), "act": gatedParts["act"]},
}

// olmo2 is Olmo2ForCausalLM: norms on what a sublayer gives, inside the residual, and on the whole width of q and k.
// Source: transformers/models/olmo2/modeling_olmo2.py.
func (b forward) olmo2() {
	d := llamaClass()
	d.norm, d.heads, d.rotate, d.floatTable = forward.olmoNorm, forward.olmoHeads, forward.olmoRotate, true
	d.norms = [4]string{"", "post_attention_layernorm", "", "post_feedforward_layernorm"}
	b.decoder(d)
}

// olmoNorm is Olmo2RMSNorm, whose product with the weight is in fp32:
//
//	x = x.to(float32); x = x * rsqrt(mean(x²) + ε); return (weight * x).to(dtype)
func (b forward) olmoNorm(x TensorID, name string, h int64) TensorID {
	w := b.weight(name+".weight", h)
	normed, variance := b.rms(x)
	out := b.to(b.mul(w, normed), b.tensor(x).DType)
	b.keep(normed, variance, x)
	return out
}

func (b forward) olmoHeads(d *decoder, p string, x TensorID) (q, k, v TensorID) {
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
func (b forward) olmoRotate(q, k, cos, sin TensorID) (TensorID, TensorID) {
	rq, rk := b.rotateBoth(q, k, cos, sin)
	outQ, outK := b.to(rq, b.tensor(q).DType), b.to(rk, b.tensor(k).DType)
	b.keep(q, k, rq, rk)
	return outQ, outK
}
