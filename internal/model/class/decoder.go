package class

import (
	"slices"
	"strconv"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// decoder is a causal language model with rotary positions, as Hugging Face writes them: the switches by which such
// classes differ from Llama beyond what Spec says.
type decoder struct {
	// embed is what follows the look-up inside the embedding module; nil: nothing.
	embed func(b Forward, x graph.TensorID) graph.TensorID
	// scaled: embeddings and each branch are multiplied by constants (Granite).
	scaled bool
	norm   func(b Forward, x graph.TensorID, name string, h int64) graph.TensorID
	// norms are the names of the norms before and after attention, before and after the MLP; "" where there is none.
	norms [4]string
	// parallel: the MLP reads what attention reads, and one sum adds both (Cohere).
	parallel bool
	heads    func(b Forward, d *decoder, p string, x graph.TensorID) (q, k, v graph.TensorID)
	rotate   func(b Forward, q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID)
	// floatTable: cos and sin stay in fp32 (OLMo 2). typedTables: each type of layer has its own (Gemma 3).
	floatTable, typedTables bool
	// sinks: each head has a score that no token gets (gpt-oss).
	sinks bool
	// windowless: the mask of sliding layers is made even without a window (Qwen2-MoE).
	windowless bool
	// attnDropout and branchDropout: dropout on the output projection inside the attention module (StarCoder 2), or in
	// the layer on both branches (Phi-3).
	attnDropout, branchDropout bool
	mlp                        func(b Forward, p string, norm graph.OpID, x graph.TensorID) graph.TensorID
}

// perForward is what a decoder makes once a forward for all its layers.
type perForward struct {
	tables [2]rotaryTable // of layers with full attention, and of those that slide
	masks  build.Masks
	pos    graph.TensorID // position ids: each layer is given them, none reads them
}

type rotaryTable struct{ cos, sin graph.TensorID }

// llamaClass is LlamaForCausalLM; Mistral (sliding window), Qwen2 (biases on q, k, v) and Qwen3 (norms on q and k)
// differ by Spec alone.
// Source: transformers/models/llama/modeling_llama.py and its siblings.
func llamaClass() decoder {
	return decoder{
		norm: Forward.Norm, norms: [4]string{"input_layernorm", "", "post_attention_layernorm", ""},
		heads: Forward.llamaHeads, rotate: Forward.rotateBoth, mlp: Forward.gatedMLP,
	}
}

func (b Forward) decoder(d decoder) {
	s := b.Spec
	n, seq, h, v := int64(s.B), int64(s.S), int64(s.H), int64(s.Vocab)
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.labels()
	invFreqs := []graph.TensorID{b.InverseFrequencies()}
	if d.typedTables && b.mixesTypes() {
		invFreqs = append(invFreqs, b.InverseFrequencies())
	}

	b.Begin("embedding", graph.None)
	table := b.Weight("model.embed_tokens.weight", v, h)
	embeds := b.Embedding(table, ids)
	if d.embed != nil {
		embeds = d.embed(b, embeds)
	}
	embeds = b.InputRequiresGrad(embeds)
	if d.scaled {
		embeds = b.WithScalar(b.MulScalar(embeds), build.EmbeddingFactor)
	}
	pos := b.Plain("aten.add", dtype.I64, graph.Shape(1, seq), b.Plain("aten.arange", dtype.I64, graph.Shape(seq)))
	o := perForward{masks: b.DecoderMasks(pos, d.windowless), pos: pos}
	x := b.Dropout(embeds, s.Dropout.Embedding)
	tableType := b.Tensor(x).DType
	if d.floatTable {
		tableType = dtype.F32
	}
	for i := range o.tables {
		if i < len(invFreqs) {
			o.tables[i].cos, o.tables[i].sin = b.RotaryTable(invFreqs[i], pos, b.RotaryDim(), tableType)
		} else {
			o.tables[i] = o.tables[0]
		}
	}

	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.decoderLayer(&d, "model.layers."+strconv.Itoa(i)+".", i, x, &o)
	}

	b.Begin("head", graph.None)
	y := d.norm(b, x, "model.norm", h)
	b.Keep(embeds, x, pos, o.tables[0].cos, o.tables[0].sin, o.tables[1].cos, o.tables[1].sin, o.masks.Full, o.masks.Sliding)
	b.decoderHead(y, table, ids, labels, "lm_head")
}

// decoderLayer is a layer's forward; the model's loop holds its input until it returns.
func (b Forward) decoderLayer(d *decoder, p string, i int, in graph.TensorID, o *perForward) graph.TensorID {
	start := b.Next()
	b.Argument(o.pos)
	first := b.Next()
	h := int64(b.Spec.H)
	norm := func(k int, x graph.TensorID) graph.TensorID {
		if d.norms[k] == "" {
			return x
		}
		y := d.norm(b, x, p+d.norms[k], h)
		b.Keep(x)
		return y
	}
	branch := func(x graph.TensorID) graph.TensorID {
		switch {
		case d.scaled:
			return b.WithScalar(b.MulScalar(x), build.ResidualFactor)
		case d.branchDropout:
			return b.Dropout(x, b.Spec.Dropout.Residual)
		}
		return x
	}
	y := norm(0, in)
	a := b.decoderAttention(d, p+"self_attn.", first, y, o, i)
	if d.parallel {
		m := d.mlp(b, p+"mlp.", graph.None, y)
		b.Keep(y)
		x := b.Add(b.Add(in, a), m)
		b.Keep(a, m, in, y)
		b.EndLayer(start)
		return x
	}
	b.Keep(y)
	a = norm(1, a)
	x := b.Add(in, branch(a))
	b.Keep(a)

	first = b.Next()
	residual := x
	y = norm(2, x)
	if d.norms[2] == "" {
		first = graph.None
	}
	m := d.mlp(b, p+"mlp.", first, y)
	b.Keep(y)
	m = norm(3, m)
	x = b.Add(residual, branch(m))
	b.Keep(in, m)
	b.EndLayer(start)
	return x
}

// decoderAttention is the attention module's forward. Its first norm began at op norm.
func (b Forward) decoderAttention(d *decoder, p string, norm graph.OpID, x graph.TensorID, o *perForward, layer int) graph.TensorID {
	s := b.Spec
	first := b.Next()
	n, seq, dim := int64(s.B), int64(s.S), int64(s.HeadDim)
	h, a, kv := int64(s.H), int64(s.Heads), int64(s.KVHeads)
	q, k, v := d.heads(b, d, p, x)
	if d.norms[0] != "" {
		b.Span("norm1", norm)
	}
	if table := o.tables[b.tableOf(layer)]; len(s.RotaryLayers) == 0 || s.RotaryLayers[layer] != 0 {
		q, k = d.rotate(b, q, k, table.cos, table.sin)
	} else {
		b.Argument(table.cos)
		b.Argument(table.sin)
	}
	var sinks *graph.TensorID
	if d.sinks {
		w := b.Weight(p+"sinks", a)
		sinks = &w
	}
	c := b.Core(q, k, v, build.Attention{
		Sinks: sinks,
		Mask:  o.masks.Of(s, layer), Dropout: s.Dropout.Attention, Causal: true, Groups: a / kv, Fp32Softmax: true, Softcap: s.AttnSoftcap,
	}, o.pos)
	c = b.Reshape(c, n, seq, a*dim)
	out := b.Project(p, "o_proj", c, a*dim, h, s.Bias.Out)
	b.Keep(c)
	if d.attnDropout {
		y := b.Dropout(out, s.Dropout.Residual)
		b.Keep(out)
		out = y
	}
	b.Keep(x, q, k, v)
	b.Span("attn", first)
	return out
}

// mixesTypes is true for a model with layers that slide and layers that do not.
func (b Forward) mixesTypes() bool {
	return slices.Contains(b.Spec.LayerTypes, "full_attention") && slices.Contains(b.Spec.LayerTypes, "sliding_attention")
}

// tableOf is the rotary table of a layer.
func (b Forward) tableOf(layer int) int {
	if build.Slides(b.Spec, layer) {
		return 1
	}
	return 0
}

// llamaHeads projects to q [B, a, S, D], k and v [B, kv, S, D], with norms over each head's q and k if the spec asks.
func (b Forward) llamaHeads(d *decoder, p string, x graph.TensorID) (q, k, v graph.TensorID) {
	s := b.Spec
	heads := func(name string, count int) graph.TensorID {
		return b.toHeads(b.Project(p, name+"_proj", x, int64(s.H), int64(count*s.HeadDim), s.Bias.QKV), count)
	}
	normed := func(name string, count int) graph.TensorID {
		y := heads(name, count)
		if s.QKNorm {
			y = d.norm(b, y, p+name+"_norm", int64(s.HeadDim))
		}
		return b.Transpose(y, 1, 2)
	}
	q, k = normed("q", s.Heads), normed("k", s.KVHeads)
	return q, k, b.Transpose(heads("v", s.KVHeads), 1, 2)
}

// toHeads is x seen as [B, S, heads, D].
func (b Forward) toHeads(x graph.TensorID, heads int) graph.TensorID {
	s := b.Tensor(x).Shape
	return b.Reshape(x, s.D[0], s.D[1], int64(heads), int64(b.Spec.HeadDim))
}

// rotateBoth is apply_rotary_pos_emb: its frame and the caller's hold q and k until both are rotated.
func (b Forward) rotateBoth(q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID) {
	rq := b.Rotate(q, cos, sin)
	b.Keep(q)
	rk := b.Rotate(k, cos, sin)
	b.Keep(q, k)
	return rq, rk
}

// gatedMLP is down(act(gate(x)) * up(x)).
func (b Forward) gatedMLP(p string, norm graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	h, f := int64(s.H), int64(s.FFN)
	first := b.Next()
	g := b.Project(p, "gate_proj", x, h, f, s.Bias.MLP)
	act := b.Next()
	ag := b.Activation(s.Activation, g)
	u := b.Project(p, "up_proj", x, h, f, s.Bias.MLP)
	if norm != graph.None {
		b.Span("norm2", norm)
	}
	y := b.Mul(ag, u)
	out := b.Project(p, "down_proj", y, f, h, s.Bias.MLP)
	b.Keep(x, y)
	b.Span("act", act)
	b.Span("mlp", first)
	return out
}
