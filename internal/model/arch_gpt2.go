package model

import "strconv"

// gpt2 is GPT2LMHeadModel. Source: transformers/models/gpt2/modeling_gpt2.py.
func (b *Builder) gpt2() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))

	b.begin("embedding", None)
	wte := b.weight("transformer.wte.weight", int64(s.Vocab), h)
	wpe := b.weight("transformer.wpe.weight", int64(s.MaxS), h)
	tok := b.inputRequiresGrad(b.embedding(wte, ids))
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	pe := b.embedding(wpe, pos)
	x := b.add(tok, pe)
	mask := TensorID(None)
	if s.Attention == "eager" {
		mask = b.causalMask(pos)
		b.g.storageOf(mask).Positional = true
	}
	x = b.dropout(x, s.Dropout.Embedding)
	b.Live(tok, pe)
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.gpt2Layer("transformer.h."+strconv.Itoa(i)+".", x, pos, mask)
		b.Live(tok, pe)
	}
	b.begin("head", None)
	y := b.norm(x, "transformer.ln_f", h)
	b.Live(x, tok, pe, pos, mask)
	y = b.reshape(y, n, seq, h)
	b.lmHead(y, wte, "lm_head", labels)
}

// gpt2Layer is a block's forward; the model's loop holds its input until it returns.
func (b *Builder) gpt2Layer(p string, in, pos, mask TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	b.argument(pos)
	norm1 := b.next()
	residual := in
	y := b.norm(in, p+"ln_1", h)
	a := b.gpt2Attention(p+"attn.", norm1, y, pos, mask)
	b.Live(y, residual)
	x := b.add(a, residual)
	b.Live(y)

	norm2 := b.next()
	residual = x
	y = b.norm(x, p+"ln_2", h)
	mlp := b.next()
	fc := b.projectConv1D(p+"mlp.", "c_fc", y, h, f)
	b.span("norm2", norm2)
	act := b.next()
	g := b.activation(s.Activation, fc)
	o := b.projectConv1D(p+"mlp.", "c_proj", g, f, h)
	b.Live(g)
	b.span("act", act)
	m := b.dropout(o, s.Dropout.Residual)
	b.Live(y, o)
	b.span("mlp", mlp)
	z := b.add(residual, m)
	b.Live(in, a, y)
	b.endLayer(first)
	return z
}

func (b *Builder) gpt2Attention(p string, norm OpID, x, pos, mask TensorID) TensorID {
	s := b.spec
	first := b.next()
	n, seq, h, a, d := int64(s.B), int64(s.S), int64(s.H), int64(s.Heads), int64(s.HeadDim)
	qkv := b.projectConv1D(p, "c_attn", x, h, 3*h)
	b.span("norm1", norm)
	parts := b.split(qkv, 2, h, h, h)
	var hd [3]TensorID
	for _, i := range []int{1, 2, 0} {
		hd[i] = b.transpose(b.reshape(parts[i], n, seq, a, d), 1, 2)
	}
	o := b.core(hd[0], hd[1], hd[2], attention{mask: mask, pos: pos, dropout: s.Dropout.Attention, causal: true, groups: 1, plainCast: true, keepLayout: true})
	o = b.contiguous(b.reshape(o, n, seq, h))
	out := b.projectConv1D(p, "c_proj", o, h, h)
	b.Live(o)
	res := b.dropout(out, s.Dropout.Residual)
	b.Live(x, out, hd[0], hd[1], hd[2])
	b.span("attn", first)
	return res
}
