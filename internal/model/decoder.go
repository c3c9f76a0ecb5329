package model

import "strconv"

// decoder is a causal language model with rotary positions, as Hugging Face writes them: the switches by which such
// classes differ from Llama beyond what Spec says.
type decoder struct {
	// embed is what follows the look-up inside the embedding module; nil: nothing.
	embed func(b forward, x TensorID) TensorID
	// scaled: embeddings and each branch are multiplied by constants (Granite).
	scaled bool
	norm   func(b forward, x TensorID, name string, h int64) TensorID
	// norms are the names of the norms before and after attention, before and after the MLP; "" where there is none.
	norms [4]string
	// parallel: the MLP reads what attention reads, and one sum adds both (Cohere).
	parallel bool
	heads    func(b forward, d *decoder, p string, x TensorID) (q, k, v TensorID)
	rotate   func(b forward, q, k, cos, sin TensorID) (TensorID, TensorID)
	// floatTable: cos and sin stay in fp32 (OLMo 2).
	floatTable bool
	// attnDropout and branchDropout: dropout on the output projection inside the attention module (StarCoder 2), or in
	// the layer on both branches (Phi-3).
	attnDropout, branchDropout bool
	mlp                        func(b forward, p string, norm OpID, x TensorID) TensorID
}

// perForward is what a decoder makes once a forward for all its layers.
type perForward struct {
	cos, sin TensorID
	masks    masks
	pos      TensorID // position ids: each layer is given them, none reads them
}

// llamaClass is LlamaForCausalLM; Mistral (sliding window), Qwen2 (biases on q, k, v) and Qwen3 (norms on q and k)
// differ by Spec alone.
// Source: transformers/models/llama/modeling_llama.py and its siblings.
func llamaClass() decoder {
	return decoder{
		norm: forward.norm, norms: [4]string{"input_layernorm", "", "post_attention_layernorm", ""},
		heads: forward.llamaHeads, rotate: forward.rotateBoth, mlp: forward.gatedMLP,
	}
}

func (b forward) decoder(d decoder) {
	s := b.spec
	n, seq, h, v := int64(s.B), int64(s.S), int64(s.H), int64(s.Vocab)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))
	invFreq := b.inverseFrequencies()

	b.begin("embedding", None)
	table := b.weight("model.embed_tokens.weight", v, h)
	embeds := b.embedding(table, ids)
	if d.embed != nil {
		embeds = d.embed(b, embeds)
	}
	embeds = b.inputRequiresGrad(embeds)
	if d.scaled {
		embeds = b.withScalar(b.mulScalar(embeds), embeddingFactor)
	}
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	o := perForward{masks: b.decoderMasks(pos), pos: pos}
	x := b.dropout(embeds, s.Dropout.Embedding)
	tableType := b.tensor(x).DType
	if d.floatTable {
		tableType = F32
	}
	o.cos, o.sin = b.rotaryTable(invFreq, pos, b.rotaryDim(), tableType)

	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.decoderLayer(&d, "model.layers."+strconv.Itoa(i)+".", i, x, &o)
	}

	b.begin("head", None)
	y := d.norm(b, x, "model.norm", h)
	b.keep(embeds, x, pos, o.cos, o.sin, o.masks.full, o.masks.sliding)
	b.lmHead(y, table, "lm_head", labels)
}

// decoderLayer is a layer's forward; the model's loop holds its input until it returns.
func (b forward) decoderLayer(d *decoder, p string, i int, in TensorID, o *perForward) TensorID {
	start := b.next()
	b.argument(o.pos)
	first := b.next()
	h := int64(b.spec.H)
	norm := func(k int, x TensorID) TensorID {
		if d.norms[k] == "" {
			return x
		}
		y := d.norm(b, x, p+d.norms[k], h)
		b.keep(x)
		return y
	}
	branch := func(x TensorID) TensorID {
		switch {
		case d.scaled:
			return b.withScalar(b.mulScalar(x), residualFactor)
		case d.branchDropout:
			return b.dropout(x, b.spec.Dropout.Residual)
		}
		return x
	}
	y := norm(0, in)
	a := b.decoderAttention(d, p+"self_attn.", first, y, o, o.masks.of(b.spec, i))
	if d.parallel {
		m := d.mlp(b, p+"mlp.", None, y)
		b.keep(y)
		x := b.add(b.add(in, a), m)
		b.keep(a, m, in, y)
		b.endLayer(start)
		return x
	}
	b.keep(y)
	a = norm(1, a)
	x := b.add(in, branch(a))
	b.keep(a)

	first = b.next()
	residual := x
	y = norm(2, x)
	if d.norms[2] == "" {
		first = None
	}
	m := d.mlp(b, p+"mlp.", first, y)
	b.keep(y)
	m = norm(3, m)
	x = b.add(residual, branch(m))
	b.keep(in, m)
	b.endLayer(start)
	return x
}

// decoderAttention is the attention module's forward. Its first norm began at op norm.
func (b forward) decoderAttention(d *decoder, p string, norm OpID, x TensorID, o *perForward, mask TensorID) TensorID {
	s := b.spec
	first := b.next()
	n, seq, dim := int64(s.B), int64(s.S), int64(s.HeadDim)
	h, a, kv := int64(s.H), int64(s.Heads), int64(s.KVHeads)
	q, k, v := d.heads(b, d, p, x)
	if d.norms[0] != "" {
		b.span("norm1", norm)
	}
	q, k = d.rotate(b, q, k, o.cos, o.sin)
	c := b.core(q, k, v, attention{
		mask: mask, dropout: s.Dropout.Attention, causal: true, groups: a / kv, fp32Softmax: true, softcap: s.AttnSoftcap,
	}, o.pos)
	c = b.reshape(c, n, seq, a*dim)
	out := b.project(p, "o_proj", c, a*dim, h, s.Bias.Out)
	b.keep(c)
	if d.attnDropout {
		y := b.dropout(out, s.Dropout.Residual)
		b.keep(out)
		out = y
	}
	b.keep(x, q, k, v)
	b.span("attn", first)
	return out
}

// llamaHeads projects to q [B, a, S, D], k and v [B, kv, S, D], with norms over each head's q and k if the spec asks.
func (b forward) llamaHeads(d *decoder, p string, x TensorID) (q, k, v TensorID) {
	s := b.spec
	heads := func(name string, count int) TensorID {
		return b.toHeads(b.project(p, name+"_proj", x, int64(s.H), int64(count*s.HeadDim), s.Bias.QKV), count)
	}
	normed := func(name string, count int) TensorID {
		y := heads(name, count)
		if s.QKNorm {
			y = d.norm(b, y, p+name+"_norm", int64(s.HeadDim))
		}
		return b.transpose(y, 1, 2)
	}
	q, k = normed("q", s.Heads), normed("k", s.KVHeads)
	return q, k, b.transpose(heads("v", s.KVHeads), 1, 2)
}

// toHeads is x seen as [B, S, heads, D].
func (b forward) toHeads(x TensorID, heads int) TensorID {
	s := b.tensor(x).Shape
	return b.reshape(x, s.D[0], s.D[1], int64(heads), int64(b.spec.HeadDim))
}

// rotateBoth is apply_rotary_pos_emb: its frame and the caller's hold q and k until both are rotated.
func (b forward) rotateBoth(q, k, cos, sin TensorID) (TensorID, TensorID) {
	rq := b.rotate(q, cos, sin)
	b.keep(q)
	rk := b.rotate(k, cos, sin)
	b.keep(q, k)
	return rq, rk
}

// gatedMLP is down(act(gate(x)) * up(x)).
func (b forward) gatedMLP(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	g := b.project(p, "gate_proj", x, h, f, s.Bias.MLP)
	act := b.next()
	ag := b.activation(s.Activation, g)
	u := b.project(p, "up_proj", x, h, f, s.Bias.MLP)
	if norm != None {
		b.span("norm2", norm)
	}
	y := b.mul(ag, u)
	out := b.project(p, "down_proj", y, f, h, s.Bias.MLP)
	b.keep(x, y)
	b.span("act", act)
	b.span("mlp", first)
	return out
}
