package model

// cpuRandomState is the size of torch.get_rng_state(): a tensor in the CPU's memory, also where a step runs on CUDA.
// Source: aten/src/ATen/CPUGeneratorImpl.cpp, CPUGeneratorImpl::get_state.
const cpuRandomState = 5056

// cpuDropout is what the CPU runs for dropout: noise of the input's own type, which is kept, and a product.
// Source: aten/src/ATen/native/Dropout.cpp, _dropout_impl.
func (b *Builder) cpuDropout(x TensorID) TensorID {
	v := *b.tensor(x)
	return b.mul(x, b.plain("aten.bernoulli_", v.DType, v.Shape))
}

// cpuAttention is the CPU's flash kernel, which takes every type and a mask, but no dropout.
// Source: aten/src/ATen/native/transformers/sdp_utils_cpp.cpp, cpu/FlashAttentionKernel.cpp.
func (b *Builder) cpuAttention(q, k, v, mask TensorID, a attention) TensorID {
	x := *b.tensor(q)
	s := x.Shape
	ins := []TensorID{q, k, v}
	if mask >= 0 {
		ins = append(ins, mask)
	}
	b.emit(OpCPUAttention, Attr{B: asAttr(a.causal && mask < 0)}, ins...)
	o := b.fresh(x.DType, s, headsLastOf(s))
	b.fresh(F32, Shape(s.D[0], s.D[2], s.D[1]), Dims{})
	return o
}
