package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// causalLMLoss is Hugging Face's ForCausalLMLoss: logits in fp32, labels shifted, cross-entropy.
func (b *Builder) causalLMLoss(logits, labels graph.TensorID) graph.TensorID {
	s := b.Tensor(logits).Shape
	n, v := s.Count()/s.At(-1), s.At(-1)
	up := b.To(logits, dtype.F32)
	b.G.StorageOf(up).Role = graph.Logits
	padded, target := b.shifted(labels)
	flat := b.Reshape(up, n, v)
	loss := b.CrossEntropy(flat, target)
	b.Keep(up, target, padded)
	return loss
}

// shifted pads the labels by one and gives tokens 2… as [N].
func (b *Builder) shifted(labels graph.TensorID) (padded, target graph.TensorID) {
	lab := b.Tensor(labels).Shape
	n := lab.Count()
	padded = b.Plain("aten.constant_pad_nd", dtype.I64, lab.With(-1, lab.At(-1)+1), labels)
	target = b.View(graph.OpView, graph.Attr{}, padded, graph.Shape(n), graph.Shape(n).Contiguous())
	if lab.D[0] > 1 { // the shifted rows of one sequence are contiguous as they are
		target = b.Plain("aten.clone", dtype.I64, graph.Shape(n), padded)
	}
	b.Keep(padded)
	return padded, target
}

// chunkedLoss is head and loss over parts of the tokens, each under torch.utils.checkpoint:
//
//	for h, y in zip(hidden.view(-1, H).chunk(n), target.chunk(n)):
//	    total = total + checkpoint(lambda h, y: F.cross_entropy(head(h).float(), y, reduction="sum"), h, y)
//	loss = total / count
//
// No output holds logits. Autocast's copy of a trained head is made in the first part and shared by the others.
func (b *Builder) chunkedLoss(x, w, bias, labels graph.TensorID) graph.TensorID {
	s := b.Tensor(x).Shape
	h := s.At(-1)
	n := s.Count() / h
	padded, target := b.shifted(labels)
	rows := b.Reshape(x, n, h)
	size := (n + int64(b.Spec.Train.LossChunks) - 1) / int64(b.Spec.Train.LossChunks)
	var sizes []int64
	for at := int64(0); at < n; at += size {
		sizes = append(sizes, min(size, n-at))
	}
	parts, targets := b.Split(rows, 0, sizes...), b.Split(target, 0, sizes...)
	b.Keep(rows, padded, target)
	total := graph.TensorID(graph.None)
	for i := range parts {
		first := b.Next()
		logits := b.scaleLogits(b.Linear(parts[i], w, bias))
		b.G.StorageOf(logits).Role = graph.Logits
		up := b.To(logits, dtype.F32)
		b.G.StorageOf(up).Role = graph.Logits
		loss := b.CrossEntropy(up, targets[i])
		b.Keep(logits, up)
		b.G.Fixed = append(b.G.Fixed, graph.Span{Layer: graph.None, Name: "loss", First: first, End: b.Next()})
		if total < 0 {
			total = b.AddScalar(loss) // 0 + loss
		} else {
			total = b.Add(total, loss)
		}
	}
	loss := b.Unary(graph.OpDivScalar, total)
	b.Keep(rows, padded, target)
	return loss
}

// CrossEntropy is F.cross_entropy on [N, V] logits and [N] classes: log_softmax in the logits' dtype, then nll_loss.
// CUDA's autocast runs nll_loss in fp32, the CPU's both.
func (b *Builder) CrossEntropy(x, target graph.TensorID) graph.TensorID {
	if b.CPU {
		x = b.CastLoss(x)
	}
	v := *b.Tensor(x)
	b.Emit(graph.OpLogSoftmax, graph.Attr{}, x)
	lp := b.Fresh(v.DType, v.Shape, graph.Dims{})
	b.G.StorageOf(lp).Role = graph.Logits
	lp = b.CastLoss(lp)
	dt := b.Tensor(lp).DType
	b.Emit(graph.OpNLLLoss, graph.Attr{}, lp, target)
	loss := b.Fresh(dt, graph.Dims{}, graph.Dims{})
	b.Fresh(dt, graph.Dims{}, graph.Dims{})
	return loss
}

// KeepLogits marks the model's output: the caller holds it to the end of backward, or drops it before.
func (b *Builder) KeepLogits(logits graph.TensorID) {
	b.G.StorageOf(logits).Role = graph.Logits
	until := graph.DropAfterForward
	if b.Spec.Train.KeepLogits {
		until = graph.DropAfterBackward
	}
	b.KeepUntil(logits, until)
}

// scaleLogits caps or scales logits where the spec says so: tanh(x/c)*c (Gemma 2), x*c (Cohere and Granite).
func (b *Builder) scaleLogits(x graph.TensorID) graph.TensorID {
	role := func(x graph.TensorID) graph.TensorID {
		b.G.StorageOf(x).Role = graph.Logits
		return x
	}
	if b.Spec.LogitSoftcap {
		x = b.WithScalar(role(b.Unary(graph.OpDivScalar, role(x))), LogitSoftcap)
		x = b.WithScalar(b.MulScalar(role(b.Unary(graph.OpTanh, x))), LogitSoftcap)
	}
	if b.Spec.LogitScale {
		x = b.WithScalar(b.MulScalar(role(x)), logitFactor)
	}
	return x
}

// LmHead is the output projection, the loss, and the caller's hold on the logits. locals are what the model's forward held
// until it returned: they go in the head's block, even if the last layer's output is all that it reads.
func (b *Builder) LmHead(x, table graph.TensorID, name string, labels graph.TensorID, locals ...graph.TensorID) {
	s := b.Spec
	w := table
	if !s.Tied {
		w = b.Weight(name+".weight", int64(s.Vocab), b.Tensor(x).Shape.At(-1))
	}
	bias := graph.TensorID(graph.None)
	if s.Bias.Head {
		bias = b.Weight(name+".bias", int64(s.Vocab))
	}
	y := b.Alias(x)
	b.Keep(locals...)
	if s.Train.LossChunks > 1 {
		b.G.Loss = b.chunkedLoss(y, w, bias, labels)
		b.Keep(x)
		return
	}
	logits := b.Linear(y, w, bias)
	logits = b.scaleLogits(b.adapter("", name, y, logits, b.Tensor(x).Shape.At(-1), int64(s.Vocab)))
	b.KeepLogits(logits)
	b.G.Loss = b.causalLMLoss(logits, labels)
	b.Keep(x)
}
