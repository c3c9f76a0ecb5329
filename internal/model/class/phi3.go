package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var phi3 = classifying(Class{
	Arch: "phi3", Heads: []string{"Phi3ForCausalLM"}, Wide: true,
	Modules: []string{"self_attn.o_proj.", "self_attn.", "mlp.", ""},
	Spec: spec.Spec{
		L: 32, H: 3072, Heads: 32, FFN: 8192, Vocab: 32064, MaxS: 4096, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	Keys:      Concat(sizeKeys, groupKeys, tiedKey, slidingKeys, rotaryKey, []hfKey{{"resid_pdrop", "dropout.residual"}}),
	Forward:   Forward.phi3,
	Linears:   []string{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"},
	Targets:   []string{"qkv_proj"}, // not in peft's table; its q, k and v are one layer
	Constants: build.Constants{RMSNormEps: 1e-5},
	parts: attentionParts.with(parts{
		"mlp": module("mlp"), "norm1": fan("input_layernorm", "self_attn", "qkv_proj"), "norm2": fan("post_attention_layernorm", "mlp", "gate_up_proj"),
		"act": {Kind: "packed", At: []string{"mlp"}},
	}),
}, forSequences, forTokens)

// phi3 is Phi3ForCausalLM: one projection for q, k and v, one for gate and up, dropout on both branches.
// Source: transformers/models/phi3/modeling_phi3.py.
func (b Forward) phi3() {
	d := llamaClass()
	d.heads, d.rotate, d.mlp, d.branchDropout = Forward.phi3Heads, Forward.phi3Rotate, Forward.phi3MLP, true
	b.decoder(d)
}

// phi3Heads slices q, k and v out of one projection.
func (b Forward) phi3Heads(_ *decoder, p string, x graph.TensorID) (q, k, v graph.TensorID) {
	s := b.Spec
	nq, nk := int64(s.Heads*s.HeadDim), int64(s.KVHeads*s.HeadDim)
	qkv := b.Project(p, "qkv_proj", x, int64(s.H), nq+2*nk, s.Bias.QKV)
	q, k, v = b.Slice(qkv, -1, 0, nq), b.Slice(qkv, -1, nq, nq+nk), b.Slice(qkv, -1, nq+nk, nq+2*nk)
	split := func(x graph.TensorID, heads int) graph.TensorID { return b.Transpose(b.toHeads(x, heads), 1, 2) }
	return split(q, s.Heads), split(k, s.KVHeads), split(v, s.KVHeads)
}

// phi3Rotate rotates the first rotary_dim of each head and puts the rest, maybe nothing, beside it: a copy.
func (b Forward) phi3Rotate(q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID) {
	qr, qp := b.cutHeads(q, cos)
	kr, kp := b.cutHeads(k, cos)
	outQ := b.Cat(-1, b.Rotate(qr, cos, sin), qp)
	outK := b.Cat(-1, b.Rotate(kr, cos, sin), kp)
	b.Keep(q, k)
	return outQ, outK
}

// cutHeads slices x into what a rotary table rotates and the rest.
func (b Forward) cutHeads(x, table graph.TensorID) (rot, pass graph.TensorID) {
	n, d := b.Tensor(table).Shape.At(-1), b.Tensor(x).Shape.At(-1)
	if n == d {
		rot = b.Alias(x)
	} else {
		rot = b.Slice(x, -1, 0, n)
	}
	return rot, b.Slice(x, -1, n, d)
}

// phi3MLP is down(up * act(gate)) with gate and up halves of one projection.
func (b Forward) phi3MLP(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	both := b.Project(p, "gate_up_proj", x, h, 2*f, s.Bias.MLP)
	b.Span("norm2", norm)
	act := b.Next()
	half := b.Split(both, -1, f, f)
	y := b.Mul(half[1], b.Activation(s.Activation, half[0]))
	out := b.Project(p, "down_proj", y, f, h, s.Bias.MLP)
	b.Keep(x, y, both)
	b.Span("act", act)
	b.Span("mlp", first)
	return out
}
