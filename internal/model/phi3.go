package model

var phi3 = class{
	arch: "phi3", heads: []string{"Phi3ForCausalLM"}, wide: true,
	modules: []string{"self_attn.o_proj.", "self_attn.", "mlp.", ""},
	spec: Spec{
		L: 32, H: 3072, Heads: 32, FFN: 8192, Vocab: 32064, MaxS: 4096, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
	},
	keys:      concat(sizeKeys, groupKeys, tiedKey, slidingKeys, rotaryKey, []hfKey{{"resid_pdrop", "dropout.residual"}}),
	forward:   forward.phi3,
	linears:   []string{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"},
	targets:   []string{"qkv_proj"}, // not in peft's table; its q, k and v are one layer
	constants: Constants{RMSNormEps: 1e-5},
	parts: attentionParts.with(parts{
		"mlp": module("mlp"), "norm1": fan("input_layernorm", "self_attn", "qkv_proj"), "norm2": fan("post_attention_layernorm", "mlp", "gate_up_proj"),
		"act": {Kind: "packed", At: []string{"mlp"}},
	}),
}

// phi3 is Phi3ForCausalLM: one projection for q, k and v, one for gate and up, dropout on both branches.
// Source: transformers/models/phi3/modeling_phi3.py.
func (b forward) phi3() {
	d := llamaClass()
	d.heads, d.rotate, d.mlp, d.branchDropout = forward.phi3Heads, forward.phi3Rotate, forward.phi3MLP, true
	b.decoder(d)
}

// phi3Heads slices q, k and v out of one projection.
func (b forward) phi3Heads(_ *decoder, p string, x TensorID) (q, k, v TensorID) {
	s := b.spec
	nq, nk := int64(s.Heads*s.HeadDim), int64(s.KVHeads*s.HeadDim)
	qkv := b.project(p, "qkv_proj", x, int64(s.H), nq+2*nk, s.Bias.QKV)
	q, k, v = b.slice(qkv, -1, 0, nq), b.slice(qkv, -1, nq, nq+nk), b.slice(qkv, -1, nq+nk, nq+2*nk)
	split := func(x TensorID, heads int) TensorID { return b.transpose(b.toHeads(x, heads), 1, 2) }
	return split(q, s.Heads), split(k, s.KVHeads), split(v, s.KVHeads)
}

// phi3Rotate rotates the first rotary_dim of each head and puts the rest, maybe nothing, beside it: a copy.
func (b forward) phi3Rotate(q, k, cos, sin TensorID) (TensorID, TensorID) {
	n, d := b.tensor(cos).Shape.At(-1), b.tensor(q).Shape.At(-1)
	part := func(x TensorID) (rot, pass TensorID) {
		if n == d {
			rot = b.alias(x)
		} else {
			rot = b.slice(x, -1, 0, n)
		}
		return rot, b.slice(x, -1, n, d)
	}
	qr, qp := part(q)
	kr, kp := part(k)
	outQ := b.cat(-1, b.rotate(qr, cos, sin), qp)
	outK := b.cat(-1, b.rotate(kr, cos, sin), kp)
	b.keep(q, k)
	return outQ, outK
}

// phi3MLP is down(up * act(gate)) with gate and up halves of one projection.
func (b forward) phi3MLP(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	both := b.project(p, "gate_up_proj", x, h, 2*f, s.Bias.MLP)
	b.span("norm2", norm)
	act := b.next()
	half := b.split(both, -1, f, f)
	y := b.mul(half[1], b.activation(s.Activation, half[0]))
	out := b.project(p, "down_proj", y, f, h, s.Bias.MLP)
	b.keep(x, y, both)
	b.span("act", act)
	b.span("mlp", first)
	return out
}
