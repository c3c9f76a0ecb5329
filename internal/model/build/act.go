package build

import (
	"math"

	"ckptplan/internal/model/graph"
)

// Activation applies one of Hugging Face's ACT2FN by the spec's name.
func (b *Builder) Activation(name string, x graph.TensorID) graph.TensorID {
	switch name {
	case "gelu", "gelu_tanh":
		y := b.Unary(graph.OpGelu, x)
		if name == "gelu_tanh" {
			b.G.Ops[b.Next()-1].Attr.A = 1 // the tanh approximation
		}
		return y
	case "silu":
		return b.Unary(graph.OpSilu, x)
	case "relu":
		return b.Unary(graph.OpRelu, x)
	case "tanh":
		return b.Unary(graph.OpTanh, x)
	case "gelu_new":
		return b.geluNew(x)
	case "gelu_fast":
		return b.geluFast(x)
	case "quick_gelu":
		return b.Mul(x, b.Unary(graph.OpSigmoid, b.WithScalar(b.MulScalar(x), 1.702)))
	}
	panic("model: activation " + name)
}

// geluNew is the Python composition that GPT-2 uses:
//
//	0.5 * x * (1.0 + tanh(√(2/π) * (x + 0.044715 * x³)))
func (b *Builder) geluNew(x graph.TensorID) graph.TensorID {
	half := b.WithScalar(b.MulScalar(x), 0.5)
	cube := b.WithScalar(b.MulScalar(b.WithScalar(b.Pow(x), 3)), 0.044715)
	inner := b.WithScalar(b.MulScalar(b.Add(x, cube)), math.Sqrt(2/math.Pi))
	one := b.WithScalar(b.AddScalar(b.Unary(graph.OpTanh, inner)), 1)
	out := b.Mul(half, one)
	b.Keep(x)
	return out
}

// geluFast is gelu_fast of GPT-NeoX-20B, without a power:
//
//	0.5 * x * (1.0 + tanh(x * √(2/π) * (1.0 + 0.044715 * x * x)))
func (b *Builder) geluFast(x graph.TensorID) graph.TensorID {
	half := b.WithScalar(b.MulScalar(x), 0.5)
	scaled := b.WithScalar(b.MulScalar(x), math.Sqrt(2/math.Pi))
	square := b.Mul(b.WithScalar(b.MulScalar(x), 0.044715), x)
	inner := b.Mul(scaled, b.WithScalar(b.AddScalar(square), 1))
	one := b.WithScalar(b.AddScalar(b.Unary(graph.OpTanh, inner)), 1)
	out := b.Mul(half, one)
	b.Keep(x)
	return out
}
