package model

import "strconv"

// phi is PhiForCausalLM: attention and MLP read the same normalised input. Source: transformers/models/phi/modeling_phi.py.
func (b *Builder) phi() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))
	invFreq := b.inverseFrequencies()

	b.begin("embedding", None)
	table := b.weight("model.embed_tokens.weight", int64(s.Vocab), h)
	x := b.inputRequiresGrad(b.embedding(table, ids))
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	mask := TensorID(None)
	if s.Attention == "eager" {
		mask = b.causalMask(pos)
	}
	x = b.dropout(x, s.Dropout.Embedding)
	embedded := x
	cos, sin := b.rotaryTable(invFreq, pos, s.rotaryDim(), b.t(x).DType)

	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.phiLayer("model.layers."+strconv.Itoa(i)+".", x, pos, cos, sin, mask)
	}

	b.begin("head", None)
	y := b.norm(x, "model.final_layernorm", h)
	b.Live(x, embedded, pos, cos, sin, mask)
	b.lmHead(y, table, "lm_head", labels)
}

func (b *Builder) phiLayer(p string, x, pos, cos, sin, mask TensorID) TensorID {
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
	b.Live(x, y, a, m)
	b.endLayer(first)
	return out
}

func (b *Builder) phiAttention(p string, norm OpID, x, pos, cos, sin, mask TensorID) TensorID {
	s := b.spec
	n, seq, h, a, kv, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.KVHeads), int64(s.HeadDim)
	first := b.next()
	b.argument(pos)
	q0 := b.heads(p, "q_proj", x, h, a, d, s.Bias.QKV)
	k0 := b.heads(p, "k_proj", x, h, kv, d, s.Bias.QKV)
	v := b.heads(p, "v_proj", x, h, kv, d, s.Bias.QKV)
	b.span("norm1", norm)
	q, k, qr, kr := b.rotatePart(q0, k0, cos, sin)
	o := b.core(q, k, v, attention{mask: mask, dropout: s.Dropout.Attention, causal: true, groups: a / kv, fp32Softmax: true})
	o = b.contiguous(b.reshape(o, n, seq, a*d))
	out := b.project(p, "dense", o, a*d, h, s.Bias.Out)
	b.Live(x, q0, k0, v, q, k, qr, kr, o)
	b.span("attn", first)
	return out
}
