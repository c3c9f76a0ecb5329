package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var glm4 = classifying(Class{
	Arch: "glm4", Heads: []string{"Glm4ForCausalLM"},
	Modules: attnFirst,
	Spec: spec.Spec{
		L: 40, H: 4096, Heads: 32, KVHeads: 2, HeadDim: 128, FFN: 13696, Vocab: 151552, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 0.5, Bias: spec.Bias{QKV: true},
	},
	Keys:      Concat(sizeKeys, groupKeys, tiedKey, rotaryKey, []hfKey{{"attention_bias", "bias.qkv"}}),
	Forward:   Forward.glm4,
	Linears:   Concat(attnLinears, []string{"gate_up_proj", "down_proj"}),
	Targets:   qvTargets, // not in peft's table
	Constants: build.Constants{RMSNormEps: 1.5625e-7},
	parts:     attentionParts.with(parts{"mlp": module("mlp"), "norm2": phi3.parts["norm2"], "act": phi3.parts["act"]}),
}, forSequences, forTokens)

// glm4 is Glm4ForCausalLM: norms before and after each sublayer, one projection for gate and up, rotary over neighbouring
// pairs of a part of each head. Source: transformers/models/glm4/modeling_glm4.py.
func (b Forward) glm4() {
	d := llamaClass()
	d.rotate, d.mlp = Forward.rotateNearPart, Forward.phi3MLP
	d.norms = [4]string{"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"}
	b.decoder(d)
}

// rotateNearPart rotates neighbouring pairs of the first elements of each head, as many as the tables have, and puts the
// others behind them:
//
//	cos = cos.unsqueeze(1)[..., : D // 2].repeat_interleave(2, dim=-1); q_embed = (q_rot * cos) + (rotate_half(q_rot) * sin)
//	q_embed = torch.cat([q_embed, q_pass], dim=-1)
func (b Forward) rotateNearPart(q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID) {
	c, s := b.doubled(cos), b.doubled(sin)
	qr, qp := b.cutHeads(q, cos)
	kr, kp := b.cutHeads(k, cos)
	rotate := func(x graph.TensorID) graph.TensorID {
		xc := b.Mul(x, c)
		return b.Add(xc, b.Mul(b.rotateNeighbours(x), s))
	}
	rq := rotate(qr)
	rk := rotate(kr)
	outQ := b.Cat(-1, rq, qp)
	outK := b.Cat(-1, rk, kp)
	b.Keep(q, k, c, s, rk)
	return outQ, outK
}

// doubled is a rotary table [1, S, D] seen as [1, 1, S, D], each angle of its first half beside itself.
func (b Forward) doubled(table graph.TensorID) graph.TensorID {
	v := b.Tensor(table).Shape
	seq, half := v.D[1], v.D[2]/2
	angles := b.Unsqueeze(b.Slice(b.Unsqueeze(table, 1), -1, 0, half), 4)
	return b.Reshape(b.Expand(angles, 1, 1, seq, half, 2), 1, 1, seq, 2*half)
}
