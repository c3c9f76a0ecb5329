package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var olmo2 = classifying(Class{
	Arch: "olmo2", Own: []string{"norm"}, Heads: []string{"Olmo2ForCausalLM"}, Wide: true,
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 50304, MaxS: 2048, Norm: "rmsnorm", NormOrder: "post", QKNorm: true,
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	Keys:      Concat(sizeKeys, groupKeys, tiedKey, attnBias),
	Forward:   Forward.olmo2,
	Linears:   gatedLinears,
	Targets:   qvTargets,
	Constants: build.Constants{RMSNormEps: 1e-5},
	parts:     parts{"attn": module("self_attn"), "core": core("self_attn"), "mlp": module("mlp"), "act": gatedParts["act"]},
}, forSequences)

// olmo2 is Olmo2ForCausalLM: norms on what a sublayer gives, inside the residual, and on the whole width of q and k.
// Source: transformers/models/olmo2/modeling_olmo2.py.
func (b Forward) olmo2() { b.decoder(olmoClass()) }

func olmoClass() decoder {
	d := llamaClass()
	d.norm, d.heads, d.rotate, d.floatTable = Forward.olmoNorm, Forward.olmoHeads, Forward.olmoRotate, true
	d.norms = [4]string{"", "post_attention_layernorm", "", "post_feedforward_layernorm"}
	return d
}

// olmoNorm is Olmo2RMSNorm, whose product with the weight is in fp32:
//
//	x = x.to(float32); x = x * rsqrt(mean(x²) + ε); return (weight * x).to(dtype)
func (b Forward) olmoNorm(x graph.TensorID, name string, h int64) graph.TensorID {
	w := b.Weight(name+".weight", h)
	normed, variance := b.Rms(x)
	out := b.To(b.Mul(w, normed), b.Tensor(x).DType)
	b.Keep(normed, variance, x)
	return out
}

func (b Forward) olmoHeads(d *decoder, p string, x graph.TensorID) (q, k, v graph.TensorID) {
	s := b.Spec
	project := func(name string, heads int) graph.TensorID {
		return b.Project(p, name+"_proj", x, int64(s.H), int64(heads*s.HeadDim), s.Bias.QKV)
	}
	normed := func(name string, heads int) graph.TensorID {
		y := project(name, heads)
		z := d.norm(b, y, p+name+"_norm", int64(heads*s.HeadDim))
		b.Keep(y)
		return z
	}
	q, k, v = normed("q", s.Heads), normed("k", s.KVHeads), project("v", s.KVHeads)
	split := func(x graph.TensorID, heads int) graph.TensorID { return b.Transpose(b.toHeads(x, heads), 1, 2) }
	return split(q, s.Heads), split(k, s.KVHeads), split(v, s.KVHeads)
}

// olmoRotate rotates in fp32, as its tables are, and casts back.
func (b Forward) olmoRotate(q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID) {
	rq, rk := b.rotateBoth(q, k, cos, sin)
	outQ, outK := b.To(rq, b.Tensor(q).DType), b.To(rk, b.Tensor(k).DType)
	b.Keep(q, k, rq, rk)
	return outQ, outK
}
