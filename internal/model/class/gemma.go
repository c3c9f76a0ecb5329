package class

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var gemma = classifying(Class{
	Arch: "gemma", Own: []string{"norm"}, Heads: []string{"GemmaForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 28, H: 3072, Heads: 16, KVHeads: 16, HeadDim: 256, FFN: 24576, Vocab: 256000, MaxS: 8192, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "gelu_tanh", Gated: true, Positions: "rotary", Rotary: 1, Tied: true,
	},
	Keys:    Concat(sizeKeys, groupKeys, tiedKey, attnBias),
	Only:    []hfOnly{{"use_bidirectional_attention", "false"}},
	Forward: Forward.gemma,
	Linears: gatedLinears,
	Targets: qvTargets,
	parts:   gatedParts,
}, forSequences, forTokens)

// gemma is GemmaForCausalLM. Source: transformers/models/gemma/modeling_gemma.py.
func (b Forward) gemma() {
	d := llamaClass()
	d.embed, d.norm = Forward.scaleEmbedding, Forward.gemmaNorm
	b.decoder(d)
}

// scaleEmbedding multiplies by a buffer of one element.
func (b Forward) scaleEmbedding(x graph.TensorID) graph.TensorID {
	return b.Mul(x, b.Static("embed_scale", graph.Buffer, b.Dtype, graph.Dims{}))
}

// gemmaNorm is GemmaRMSNorm:
//
//	output = x.float() * rsqrt(mean(x.float()²) + ε); return (output * (1.0 + weight.float())).type_as(x)
func (b Forward) gemmaNorm(x graph.TensorID, name string, h int64) graph.TensorID {
	w := b.Weight(name+".weight", h)
	f := b.To(x, dtype.F32)
	r := b.Unary(graph.OpRsqrt, b.WithScalar(b.AddScalar(b.Mean(b.WithScalar(b.Pow(f), 2))), b.Constants.RMSNormEps))
	normed := b.Mul(f, r)
	out := b.Mul(normed, b.WithScalar(b.AddScalar(b.To(w, dtype.F32)), 1))
	b.Keep(normed)
	res := b.To(out, b.Tensor(x).DType)
	b.Keep(x, out)
	return res
}
