package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// LayerNorm is F.layer_norm; CUDA's autocast runs it in fp32, with fp32 copies of 16-bit weights. Statistics are fp32 for
// 16-bit inputs.
func (b *Builder) LayerNorm(x, w, bias graph.TensorID) graph.TensorID {
	x = b.castFull(x)
	v := *b.Tensor(x)
	ins := []graph.TensorID{x}
	for _, p := range []graph.TensorID{w, bias} {
		if p >= 0 {
			ins = append(ins, b.castFull(p))
		}
	}
	b.Emit(graph.OpLayerNorm, graph.Attr{}, ins...).Scalar = b.Constants.LayerNormEps
	out := b.Fresh(v.DType, v.Shape, graph.Dims{})
	stats := v.Shape.With(-1, 1)
	b.Fresh(dtype.F32, stats, graph.Dims{})
	b.Fresh(dtype.F32, stats, graph.Dims{})
	return out
}

// rmsNorm is Hugging Face's LlamaRMSNorm, composed of small ops:
//
//	x = x.to(float32); x = x * rsqrt(mean(x²) + ε); return weight * x.to(dtype)
func (b *Builder) rmsNorm(x, w graph.TensorID) graph.TensorID {
	dt := b.Tensor(x).DType
	normed, variance := b.Rms(x)
	low := b.To(normed, dt)
	out := b.Mul(w, low)
	b.Keep(normed, variance, x)
	return out
}

// Rms is x / √(mean(x²)+ε) in fp32, and mean(x²), which its caller's frame holds.
func (b *Builder) Rms(x graph.TensorID) (normed, variance graph.TensorID) {
	x = b.To(x, dtype.F32)
	variance = b.Mean(b.WithScalar(b.Pow(x), 2))
	r := b.Unary(graph.OpRsqrt, b.WithScalar(b.AddScalar(variance), b.Constants.RMSNormEps))
	normed = b.Mul(x, r)
	b.Keep(variance)
	return normed, variance
}

// fusedRMSNorm is F.rms_norm as one kernel (PyTorch ≥ 2.9 with equal dtypes).
func (b *Builder) fusedRMSNorm(x, w graph.TensorID) graph.TensorID {
	x = b.castFull(x)
	v := *b.Tensor(x)
	b.Emit(graph.OpRMSNorm, graph.Attr{}, x, b.castFull(w)).Scalar = b.Constants.RMSNormEps
	out := b.Fresh(v.DType, v.Shape, graph.Dims{})
	b.Fresh(dtype.F32, v.Shape.With(-1, 1), graph.Dims{})
	return out
}

// Norm is the layer norm or RMSNorm that the spec names, over the last dimension of width h.
func (b *Builder) Norm(x graph.TensorID, name string, h int64) graph.TensorID {
	switch b.Spec.Norm {
	case "rmsnorm":
		return b.rmsNorm(x, b.Weight(name+".weight", h))
	case "rmsnorm-fused":
		return b.fusedRMSNorm(x, b.Weight(name+".weight", h))
	}
	if b.Spec.PlainNorm {
		return b.LayerNorm(x, graph.None, graph.None)
	}
	w := b.Weight(name+".weight", h)
	bias := graph.TensorID(graph.None)
	if b.Spec.Bias.Norm {
		bias = b.Weight(name+".bias", h)
	}
	return b.LayerNorm(x, w, bias)
}
