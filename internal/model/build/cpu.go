package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// CPURandomState is the size of torch.get_rng_state(): a tensor in the CPU's memory, also where a step runs on CUDA.
// Source: aten/src/ATen/CPUGeneratorImpl.cpp, CPUGeneratorImpl::get_state.
const CPURandomState = 5056

// cpuDropout is what the CPU runs for dropout: noise of the input's own type, which is kept, and a product.
// Source: aten/src/ATen/native/Dropout.cpp, _dropout_impl.
func (b *Builder) cpuDropout(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	return b.Mul(x, b.Plain("aten.bernoulli_", v.DType, v.Shape))
}

// cpuAttention is the CPU's flash kernel, which takes every type and a mask, but no dropout.
// Source: aten/src/ATen/native/transformers/sdp_utils_cpp.cpp, cpu/FlashAttentionKernel.cpp.
func (b *Builder) cpuAttention(q, k, v, mask graph.TensorID, a Attention) graph.TensorID {
	x := *b.Tensor(q)
	s := x.Shape
	ins := []graph.TensorID{q, k, v}
	if mask >= 0 {
		ins = append(ins, mask)
	}
	b.Emit(graph.OpCPUAttention, graph.Attr{B: asAttr(a.Causal && mask < 0)}, ins...)
	o := b.Fresh(x.DType, s, headsLastOf(s))
	b.Fresh(dtype.F32, graph.Shape(s.D[0], s.D[2], s.D[1]), graph.Dims{})
	return o
}
