package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var phi = classifying(Class{
	Arch: "phi", Heads: []string{"PhiForCausalLM"},
	Modules: Concat(attnProjections[:3], []string{"self_attn.dense.", "self_attn.", "mlp.", ""}),
	Spec: spec.Spec{
		L: 24, H: 2048, Heads: 32, FFN: 8192, Vocab: 51200, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new",
		Positions: "rotary", Rotary: 0.5, Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}, ParallelResidual: true,
	},
	Keys:     Concat(sizeKeys, groupKeys, tiedKey, rotaryKey, []hfKey{{"embd_pdrop", "dropout.embedding"}, {"resid_pdrop", "dropout.residual"}, {"qk_layernorm", "qk_norm"}}),
	Forward:  Forward.phi,
	Linears:  []string{"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"},
	Targets:  []string{"q_proj", "v_proj", "fc1", "fc2"},
	Problems: phiProblems,
	parts:    attentionParts.with(parts{"mlp": module("mlp"), "act": fan("mlp.activation_fn", "mlp", "fc2")}),
}, forSequences, forTokens)

// phi is PhiForCausalLM: attention and MLP read the same normalised input. Source: transformers/models/phi/modeling_phi.py.
func (b Forward) phi() {
	b.rotaryBody(rotaryBody{
		embed: "model.embed_tokens", layers: "model.layers", norm: "model.final_layernorm", head: "lm_head", rebinds: true, layer: b.phiLayer,
	})
}

func (b Forward) phiLayer(p string, x, pos, cos, sin, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	first := b.Next()
	b.Argument(pos)
	norm1 := b.Next()
	y := b.Norm(x, p+"input_layernorm", int64(s.H))
	a := b.phiAttention(p+"self_attn.", norm1, y, pos, cos, sin, mask)
	a = b.Dropout(a, s.Dropout.Residual)
	m := b.Mlp(p+"mlp.", "fc1", "fc2", graph.None, y)
	m = b.Dropout(m, s.Dropout.Residual)
	out := b.Add(b.Add(a, m), x)
	b.Keep(x, y, a, m)
	b.EndLayer(first)
	return out
}

func (b Forward) phiAttention(p string, norm graph.OpID, x, pos, cos, sin, mask graph.TensorID) graph.TensorID {
	s := b.Spec
	n, seq, h, a, kv, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.KVHeads), int64(s.HeadDim)
	first := b.Next()
	q0 := b.Heads(p, "q_proj", x, h, a, d, s.Bias.QKV)
	k0 := b.Heads(p, "k_proj", x, h, kv, d, s.Bias.QKV)
	v := b.Heads(p, "v_proj", x, h, kv, d, s.Bias.QKV)
	b.Span("norm1", norm)
	if s.QKNorm {
		q0 = b.Norm(q0, p+"q_layernorm", d)
		k0 = b.Norm(k0, p+"k_layernorm", d)
	}
	q, k, qr, kr := b.rotatePart(q0, k0, cos, sin)
	o := b.Core(q, k, v, build.Attention{Mask: mask, Dropout: s.Dropout.Attention, Causal: true, Groups: a / kv, Fp32Softmax: true}, pos)
	o = b.Contiguous(b.Reshape(o, n, seq, a*d))
	out := b.Project(p, "dense", o, a*d, h, s.Bias.Out)
	b.Keep(x, q0, k0, v, q, k, qr, kr, o)
	b.Span("attn", first)
	return out
}

func phiProblems(s *spec.Spec, add func(key, format string, args ...any)) {
	if d := int(float64(s.HeadDim) * s.Rotary); d%2 == 1 && d != s.HeadDim { // other classes take as many as their table has, an even number
		add("rotary_fraction", "rotary_fraction %g of head_dim %d is %d elements, an odd number: Phi turns pairs of them", s.Rotary, s.HeadDim, d)
	}
}
