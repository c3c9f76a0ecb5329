package model

// activation applies one of Hugging Face's ACT2FN by the spec's name.
func (b *Builder) activation(name string, x TensorID) TensorID {
	switch name {
	case "gelu", "gelu_tanh":
		return b.unary(OpGelu, x)
	case "silu":
		return b.unary(OpSilu, x)
	case "relu":
		return b.unary(OpRelu, x)
	case "tanh":
		return b.unary(OpTanh, x)
	case "gelu_new":
		return b.geluNew(x)
	case "quick_gelu":
		return b.mul(x, b.unary(OpSigmoid, b.mulScalar(x)))
	}
	panic("model: activation " + name)
}

// geluNew is the Python composition that GPT-2 uses:
//
//	0.5 * x * (1.0 + tanh(√(2/π) * (x + 0.044715 * x³)))
func (b *Builder) geluNew(x TensorID) TensorID {
	half := b.mulScalar(x)
	cube := b.mulScalar(b.pow(x))
	inner := b.mulScalar(b.add(x, cube))
	one := b.addScalar(b.unary(OpTanh, inner))
	out := b.mul(half, one)
	b.Live(x)
	return out
}
