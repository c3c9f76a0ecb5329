package class

import (
	"strconv"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// rotaryBody is the model around the layers of GPT-NeoX and Phi: token embeddings with dropout, one rotary table for all
// layers, a last norm, the head.
type rotaryBody struct {
	embed, layers, norm, head string // names of the modules
	// rebinds: the local of the embeddings is set to what dropout gives; what dropout read is not held by it.
	rebinds bool
	layer   func(p string, x, pos, cos, sin, mask graph.TensorID) graph.TensorID
}

func (b Forward) rotaryBody(m rotaryBody) {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ids := b.Static("input_ids", graph.Input, dtype.I64, graph.Shape(n, seq))
	labels := b.labels()
	invFreq := b.InverseFrequencies()

	b.Begin("embedding", graph.None)
	table := b.Weight(m.embed+".weight", int64(s.Vocab), h)
	embedded := b.InputRequiresGrad(b.Embedding(table, ids))
	pos := b.Plain("aten.add", dtype.I64, graph.Shape(1, seq), b.Plain("aten.arange", dtype.I64, graph.Shape(seq)))
	mask := graph.TensorID(graph.None)
	if s.Attention == "eager" {
		mask = b.CausalMask(pos)
	}
	x := b.Dropout(embedded, s.Dropout.Embedding)
	if m.rebinds {
		embedded = x
	}
	cos, sin := b.RotaryTable(invFreq, pos, b.RotaryDim(), b.Tensor(x).DType)

	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = m.layer(m.layers+"."+strconv.Itoa(i)+".", x, pos, cos, sin, mask)
	}

	b.Begin("head", graph.None)
	y := b.Norm(x, m.norm, h)
	b.Keep(x, embedded, pos, cos, sin, mask)
	b.decoderHead(y, table, ids, labels, m.head)
}
