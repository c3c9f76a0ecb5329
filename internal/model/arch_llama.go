package model

import "strconv"

// llama is LlamaForCausalLM and the classes that differ from it by a switch: Mistral (sliding window), Qwen2 (biases
// on q, k, v), Qwen3 (norms on q and k).
// Source: transformers/models/llama/modeling_llama.py and its siblings.
func (b *Builder) llama() {
	s := b.spec
	n, seq, h, v := int64(s.B), int64(s.S), int64(s.H), int64(s.Vocab)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))
	invFreq := b.static("inv_freq", Buffer, b.dtype, Shape(int64(s.HeadDim)/2))
	b.static("original_inv_freq", Buffer, b.dtype, Shape(int64(s.HeadDim)/2))

	b.begin("embedding", None)
	table := b.weight("model.embed_tokens.weight", v, h)
	x := b.embedding(table, ids)
	x = b.inputRequiresGrad(x)
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	mask := TensorID(None)
	if s.Attention == "eager" {
		mask = b.causalMask(pos)
	}
	cos, sin := b.rotaryTable(invFreq, pos, int64(s.HeadDim), b.t(x).DType)

	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.llamaLayer("model.layers."+strconv.Itoa(i)+".", x, cos, sin, mask)
	}

	b.begin("head", None)
	y := b.norm(x, "model.norm", h)
	b.Live(x, pos, cos, sin, mask)
	b.lmHead(y, table, "lm_head", labels)
}

// inputRequiresGrad is peft's enable_input_require_grads: with frozen weights and any checkpointing, the embedding's
// output is made a leaf that requires grad.
func (b *Builder) inputRequiresGrad(x TensorID) TensorID {
	if b.spec.Train.LoRA != nil && b.spec.inputGrad() {
		b.t(x).Grad = true
		b.held(x, DropAfterBackward)
	}
	return x
}

// inputGrad: users of LoRA turn input gradients on together with any checkpointing.
func (s *Spec) inputGrad() bool { return s.Checkpoint != "" && s.Checkpoint != "none" }

// norm is the layer norm or RMSNorm that the spec names, over the last dimension of width h.
func (b *Builder) norm(x TensorID, name string, h int64) TensorID {
	switch b.spec.Norm {
	case "rmsnorm":
		return b.rmsNorm(x, b.weight(name+".weight", h))
	case "rmsnorm-fused":
		return b.fusedRMSNorm(x, b.weight(name+".weight", h))
	}
	w := b.weight(name+".weight", h)
	bias := TensorID(None)
	if b.spec.Bias.Norm {
		bias = b.weight(name+".bias", h)
	}
	return b.layerNorm(x, w, bias)
}

func (b *Builder) llamaLayer(p string, x, cos, sin, mask TensorID) TensorID {
	first := b.next()
	h := int64(b.spec.H)

	residual := x
	y := b.norm(x, p+"input_layernorm", h)
	b.Live(x)
	a := b.llamaAttention(p+"self_attn.", first, y, cos, sin, mask)
	b.Live(y, residual)
	x = b.add(residual, a)

	first2 := b.next()
	residual = x
	y = b.norm(x, p+"post_attention_layernorm", h)
	m := b.gatedMLP(p+"mlp.", first2, y)
	b.Live(y)
	x = b.add(residual, m)
	b.endLayer(first)
	return x
}

func (b *Builder) llamaAttention(p string, norm OpID, x, cos, sin, mask TensorID) TensorID {
	s := b.spec
	first := b.next()
	n, seq, d := int64(s.B), int64(s.S), int64(s.HeadDim)
	h, a, kv := int64(s.H), int64(s.Heads), int64(s.KVHeads)
	heads := func(name string, count int64, normed bool) TensorID {
		y := b.reshape(b.project(p, name, x, h, count*d, s.Bias.QKV), n, seq, count, d)
		if normed {
			y = b.rmsNorm(y, b.weight(p+name[:1]+"_norm.weight", d))
		}
		return b.transpose(y, 1, 2)
	}
	q := heads("q_proj", a, s.QKNorm)
	k := heads("k_proj", kv, s.QKNorm)
	v := heads("v_proj", kv, false)
	b.span("norm1", norm)
	q0, k0 := q, k
	q = b.rotate(q0, cos, sin)
	b.Live(q0)
	k = b.rotate(k0, cos, sin)
	b.Live(q0, k0)
	o := b.core(q, k, v, attention{mask: mask, dropout: s.Dropout.Attention, causal: true, groups: a / kv, fp32Softmax: true})
	o = b.reshape(o, n, seq, a*d)
	out := b.project(p, "o_proj", o, a*d, h, s.Bias.Out)
	b.Live(x, q, k, v, o)
	b.span("attn", first)
	return out
}

// gatedMLP is down(act(gate(x)) * up(x)).
func (b *Builder) gatedMLP(p string, norm OpID, x TensorID) TensorID {
	s := b.spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.next()
	g := b.project(p, "gate_proj", x, h, f, s.Bias.MLP)
	act := b.next()
	ag := b.activation(s.Activation, g)
	u := b.project(p, "up_proj", x, h, f, s.Bias.MLP)
	b.span("norm2", norm)
	y := b.mul(ag, u)
	out := b.project(p, "down_proj", y, f, h, s.Bias.MLP)
	b.Live(x, y)
	b.span("act", act)
	b.span("mlp", first)
	return out
}

// lmHead is the output projection, the loss, and the caller's hold on the logits.
func (b *Builder) lmHead(x, table TensorID, name string, labels TensorID) {
	s := b.spec
	w := table
	if !s.Tied {
		w = b.weight(name+".weight", int64(s.Vocab), int64(s.H))
	}
	bias := TensorID(None)
	if s.Bias.Head {
		bias = b.weight(name+".bias", int64(s.Vocab))
	}
	y := b.alias(x)
	logits := b.linear(y, w, bias)
	b.keepLogits(logits)
	b.g.Loss = b.causalLMLoss(logits, labels)
	b.Live(x)
}

// alias is hidden_states[:, slice(0, None), :].
func (b *Builder) alias(x TensorID) TensorID {
	v := b.t(x)
	return b.view(OpAlias, Attr{}, x, v.Shape, v.Stride)
}
