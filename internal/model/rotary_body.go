package model

import "strconv"

// rotaryBody is the model around the layers of GPT-NeoX and Phi: token embeddings with dropout, one rotary table for all
// layers, a last norm, the head.
type rotaryBody struct {
	embed, layers, norm, head string // names of the modules
	// rebinds: the local of the embeddings is set to what dropout gives; what dropout read is not held by it.
	rebinds bool
	layer   func(p string, x, pos, cos, sin, mask TensorID) TensorID
}

func (b forward) rotaryBody(m rotaryBody) {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.static("input_ids", Input, I64, Shape(n, seq))
	labels := b.static("labels", Input, I64, Shape(n, seq))
	invFreq := b.inverseFrequencies()

	b.begin("embedding", None)
	table := b.weight(m.embed+".weight", int64(s.Vocab), h)
	embedded := b.inputRequiresGrad(b.embedding(table, ids))
	pos := b.plain("aten.add", I64, Shape(1, seq), b.plain("aten.arange", I64, Shape(seq)))
	mask := TensorID(None)
	if s.Attention == "eager" {
		mask = b.causalMask(pos)
	}
	x := b.dropout(embedded, s.Dropout.Embedding)
	if m.rebinds {
		embedded = x
	}
	cos, sin := b.rotaryTable(invFreq, pos, b.rotaryDim(), b.tensor(x).DType)

	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = m.layer(m.layers+"."+strconv.Itoa(i)+".", x, pos, cos, sin, mask)
	}

	b.begin("head", None)
	y := b.norm(x, m.norm, h)
	b.keep(x, embedded, pos, cos, sin, mask)
	b.lmHead(y, table, m.head, labels)
}
