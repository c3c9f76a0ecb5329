package model

import "math"

// activation applies one of Hugging Face's ACT2FN by the spec's name.
func (b *Builder) activation(name string, x TensorID) TensorID {
	switch name {
	case "gelu", "gelu_tanh":
		y := b.unary(OpGelu, x)
		if name == "gelu_tanh" {
			b.g.Ops[b.next()-1].Attr.A = 1 // the tanh approximation
		}
		return y
	case "silu":
		return b.unary(OpSilu, x)
	case "relu":
		return b.unary(OpRelu, x)
	case "tanh":
		return b.unary(OpTanh, x)
	case "gelu_new":
		return b.geluNew(x)
	case "gelu_fast":
		return b.geluFast(x)
	case "quick_gelu":
		return b.mul(x, b.unary(OpSigmoid, b.withScalar(b.mulScalar(x), 1.702)))
	}
	panic("model: activation " + name)
}

// geluNew is the Python composition that GPT-2 uses:
//
//	0.5 * x * (1.0 + tanh(√(2/π) * (x + 0.044715 * x³)))
func (b *Builder) geluNew(x TensorID) TensorID {
	half := b.withScalar(b.mulScalar(x), 0.5)
	cube := b.withScalar(b.mulScalar(b.withScalar(b.pow(x), 3)), 0.044715)
	inner := b.withScalar(b.mulScalar(b.add(x, cube)), math.Sqrt(2/math.Pi))
	one := b.withScalar(b.addScalar(b.unary(OpTanh, inner)), 1)
	out := b.mul(half, one)
	b.keep(x)
	return out
}

// geluFast is gelu_fast of GPT-NeoX-20B, without a power:
//
//	0.5 * x * (1.0 + tanh(x * √(2/π) * (1.0 + 0.044715 * x * x)))
func (b *Builder) geluFast(x TensorID) TensorID {
	half := b.withScalar(b.mulScalar(x), 0.5)
	scaled := b.withScalar(b.mulScalar(x), math.Sqrt(2/math.Pi))
	square := b.mul(b.withScalar(b.mulScalar(x), 0.044715), x)
	inner := b.mul(scaled, b.withScalar(b.addScalar(square), 1))
	one := b.withScalar(b.addScalar(b.unary(OpTanh, inner)), 1)
	out := b.mul(half, one)
	b.keep(x)
	return out
}
