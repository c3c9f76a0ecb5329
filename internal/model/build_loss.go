package model

// causalLMLoss is Hugging Face's ForCausalLMLoss: logits in fp32, labels shifted, cross-entropy.
func (b *Builder) causalLMLoss(logits, labels TensorID) TensorID {
	s := b.tensor(logits).Shape
	n, v := s.Count()/s.At(-1), s.At(-1)
	up := b.to(logits, F32)
	b.g.storageOf(up).Role = Logits
	padded, target := b.shifted(labels)
	flat := b.reshape(up, n, v)
	loss := b.crossEntropy(flat, target)
	b.keep(up, target, padded)
	return loss
}

// shifted pads the labels by one and gives tokens 2… as [N].
func (b *Builder) shifted(labels TensorID) (padded, target TensorID) {
	lab := b.tensor(labels).Shape
	n := lab.Count()
	padded = b.plain("aten.constant_pad_nd", I64, lab.With(-1, lab.At(-1)+1), labels)
	target = b.view(OpView, Attr{}, padded, Shape(n), Shape(n).Contiguous())
	if lab.D[0] > 1 { // the shifted rows of one sequence are contiguous as they are
		target = b.plain("aten.clone", I64, Shape(n), padded)
	}
	b.keep(padded)
	return padded, target
}

// chunkedLoss is head and loss over parts of the tokens, each under torch.utils.checkpoint:
//
//	for h, y in zip(hidden.view(-1, H).chunk(n), target.chunk(n)):
//	    total = total + checkpoint(lambda h, y: F.cross_entropy(head(h).float(), y, reduction="sum"), h, y)
//	loss = total / count
//
// No output holds logits. Autocast's copy of a trained head is made in the first part and shared by the others.
func (b *Builder) chunkedLoss(x, w, bias, labels TensorID) TensorID {
	s := b.tensor(x).Shape
	h := s.At(-1)
	n := s.Count() / h
	padded, target := b.shifted(labels)
	rows := b.reshape(x, n, h)
	size := (n + int64(b.spec.Train.LossChunks) - 1) / int64(b.spec.Train.LossChunks)
	var sizes []int64
	for at := int64(0); at < n; at += size {
		sizes = append(sizes, min(size, n-at))
	}
	parts, targets := b.split(rows, 0, sizes...), b.split(target, 0, sizes...)
	b.keep(rows, padded, target)
	total := TensorID(None)
	for i := range parts {
		first := b.next()
		logits := b.scaleLogits(b.linear(parts[i], w, bias))
		b.g.storageOf(logits).Role = Logits
		up := b.to(logits, F32)
		b.g.storageOf(up).Role = Logits
		loss := b.crossEntropy(up, targets[i])
		b.keep(logits, up)
		b.g.Fixed = append(b.g.Fixed, Span{Layer: None, Name: "loss", First: first, End: b.next()})
		if total < 0 {
			total = b.addScalar(loss) // 0 + loss
		} else {
			total = b.add(total, loss)
		}
	}
	loss := b.unary(OpDivScalar, total)
	b.keep(rows, padded, target)
	return loss
}

// crossEntropy is F.cross_entropy on [N, V] logits and [N] classes: log_softmax in the logits' dtype, then nll_loss.
// CUDA's autocast runs nll_loss in fp32, the CPU's both.
func (b *Builder) crossEntropy(x, target TensorID) TensorID {
	if b.CPU {
		x = b.castLoss(x)
	}
	v := *b.tensor(x)
	b.emit(OpLogSoftmax, Attr{}, x)
	lp := b.fresh(v.DType, v.Shape, Dims{})
	b.g.storageOf(lp).Role = Logits
	lp = b.castLoss(lp)
	dt := b.tensor(lp).DType
	b.emit(OpNLLLoss, Attr{}, lp, target)
	loss := b.fresh(dt, Dims{}, Dims{})
	b.fresh(dt, Dims{}, Dims{})
	return loss
}

// keepLogits marks the model's output: the caller holds it to the end of backward, or drops it before.
func (b *Builder) keepLogits(logits TensorID) {
	b.g.storageOf(logits).Role = Logits
	until := DropAfterForward
	if b.spec.Train.KeepLogits {
		until = DropAfterBackward
	}
	b.keepUntil(logits, until)
}

// scaleLogits caps or scales logits where the spec says so: tanh(x/c)*c (Gemma 2), x*c (Cohere and Granite).
func (b *Builder) scaleLogits(x TensorID) TensorID {
	role := func(x TensorID) TensorID {
		b.g.storageOf(x).Role = Logits
		return x
	}
	if b.spec.LogitSoftcap {
		x = b.withScalar(role(b.unary(OpDivScalar, role(x))), logitSoftcap)
		x = b.withScalar(b.mulScalar(role(b.unary(OpTanh, x))), logitSoftcap)
	}
	if b.spec.LogitScale {
		x = b.withScalar(b.mulScalar(role(x)), logitFactor)
	}
	return x
}

// lmHead is the output projection, the loss, and the caller's hold on the logits. locals are what the model's forward held
// until it returned: they go in the head's block, even if the last layer's output is all that it reads.
func (b *Builder) lmHead(x, table TensorID, name string, labels TensorID, locals ...TensorID) {
	s := b.spec
	w := table
	if !s.Tied {
		w = b.weight(name+".weight", int64(s.Vocab), b.tensor(x).Shape.At(-1))
	}
	bias := TensorID(None)
	if s.Bias.Head {
		bias = b.weight(name+".bias", int64(s.Vocab))
	}
	y := b.alias(x)
	b.keep(locals...)
	if s.Train.LossChunks > 1 {
		b.g.Loss = b.chunkedLoss(y, w, bias, labels)
		b.keep(x)
		return
	}
	logits := b.scaleLogits(b.linear(y, w, bias))
	b.keepLogits(logits)
	b.g.Loss = b.causalLMLoss(logits, labels)
	b.keep(x)
}
