package model

// causalLMLoss is Hugging Face's ForCausalLMLoss: logits in fp32, labels shifted, cross-entropy.
func (b *Builder) causalLMLoss(logits, labels TensorID) TensorID {
	s := b.t(logits).Shape
	n, v := s.Count()/s.At(-1), s.At(-1)
	up := b.to(logits, F32)
	b.g.storageOf(up).Role = Logits
	lab := b.t(labels).Shape
	padded := b.plain("aten.constant_pad_nd", I64, lab.With(-1, lab.At(-1)+1), labels)
	target := b.view(OpView, Attr{}, padded, Shape(n), Shape(n).Contiguous())
	if lab.D[0] > 1 { // the shifted rows of one sequence are contiguous as they are
		target = b.plain("aten.clone", I64, Shape(n), padded)
	}
	b.Live(padded)
	flat := b.reshape(up, n, v)
	loss := b.crossEntropy(flat, target)
	b.Live(up, target, padded)
	return loss
}

// crossEntropy is F.cross_entropy on [N, V] logits and [N] classes: log_softmax in the logits' dtype, then nll_loss,
// which autocast runs in fp32.
func (b *Builder) crossEntropy(x, target TensorID) TensorID {
	v := *b.t(x)
	b.emit(OpLogSoftmax, Attr{}, x)
	lp := b.fresh(v.DType, v.Shape, Dims{})
	b.g.storageOf(lp).Role = Logits
	lp = b.full(lp)
	dt := b.t(lp).DType
	b.emit(OpNLLLoss, Attr{}, lp, target)
	loss := b.fresh(dt, Dims{}, Dims{})
	b.fresh(dt, Dims{}, Dims{})
	b.held(loss, DropAfterBackward)
	return loss
}

// keepLogits marks the model's output: the caller holds it to the end of backward, or drops it before.
func (b *Builder) keepLogits(logits TensorID) {
	b.g.storageOf(logits).Role = Logits
	until := DropAfterForward
	if b.spec.Train.KeepLogits {
		until = DropAfterBackward
	}
	b.held(logits, until)
}
