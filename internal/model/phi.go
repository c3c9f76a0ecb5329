package model

var phi = class{
	arch: "phi", heads: []string{"PhiForCausalLM"},
	modules: concat(attnProjections[:3], []string{"self_attn.dense.", "self_attn.", "mlp.", ""}),
	spec: Spec{
		L: 24, H: 2048, Heads: 32, FFN: 8192, Vocab: 51200, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new",
		Positions: "rotary", Rotary: 0.5, Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}, ParallelResidual: true,
	},
	keys:     concat(sizeKeys, groupKeys, tiedKey, rotaryKey, []hfKey{{"embd_pdrop", "dropout.embedding"}, {"resid_pdrop", "dropout.residual"}, {"qk_layernorm", "qk_norm"}}),
	forward:  forward.phi,
	linears:  []string{"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"},
	targets:  []string{"q_proj", "v_proj", "fc1", "fc2"},
	problems: phiProblems,
	parts:    attentionParts.with(parts{"mlp": module("mlp"), "act": fan("mlp.activation_fn", "mlp", "fc2")}),
}

// phi is PhiForCausalLM: attention and MLP read the same normalised input. Source: transformers/models/phi/modeling_phi.py.
func (b forward) phi() {
	b.rotaryBody(rotaryBody{
		embed: "model.embed_tokens", layers: "model.layers", norm: "model.final_layernorm", head: "lm_head", rebinds: true, layer: b.phiLayer,
	})
}

func (b forward) phiLayer(p string, x, pos, cos, sin, mask TensorID) TensorID {
	s := b.spec
	first := b.next()
	b.argument(pos)
	norm1 := b.next()
	y := b.norm(x, p+"input_layernorm", int64(s.H))
	a := b.phiAttention(p+"self_attn.", norm1, y, pos, cos, sin, mask)
	a = b.dropout(a, s.Dropout.Residual)
	m := b.mlp(p+"mlp.", "fc1", "fc2", None, y)
	m = b.dropout(m, s.Dropout.Residual)
	out := b.add(b.add(a, m), x)
	b.keep(x, y, a, m)
	b.endLayer(first)
	return out
}

func (b forward) phiAttention(p string, norm OpID, x, pos, cos, sin, mask TensorID) TensorID {
	s := b.spec
	n, seq, h, a, kv, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.KVHeads), int64(s.HeadDim)
	first := b.next()
	q0 := b.heads(p, "q_proj", x, h, a, d, s.Bias.QKV)
	k0 := b.heads(p, "k_proj", x, h, kv, d, s.Bias.QKV)
	v := b.heads(p, "v_proj", x, h, kv, d, s.Bias.QKV)
	b.span("norm1", norm)
	if s.QKNorm {
		q0 = b.norm(q0, p+"q_layernorm", d)
		k0 = b.norm(k0, p+"k_layernorm", d)
	}
	q, k, qr, kr := b.rotatePart(q0, k0, cos, sin)
	o := b.core(q, k, v, attention{mask: mask, dropout: s.Dropout.Attention, causal: true, groups: a / kv, fp32Softmax: true}, pos)
	o = b.contiguous(b.reshape(o, n, seq, a*d))
	out := b.project(p, "dense", o, a*d, h, s.Bias.Out)
	b.keep(x, q0, k0, v, q, k, qr, kr, o)
	b.span("attn", first)
	return out
}

func phiProblems(s *Spec, add func(key, format string, args ...any)) {
	if d := int(float64(s.HeadDim) * s.Rotary); d%2 == 1 && d != s.HeadDim { // other classes take as many as their table has, an even number
		add("rotary_fraction", "rotary_fraction %g of head_dim %d is %d elements, an odd number: Phi turns pairs of them", s.Rotary, s.HeadDim, d)
	}
}
