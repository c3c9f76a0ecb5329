package model

// layerNorm is F.layer_norm; CUDA's autocast runs it in fp32. Statistics are fp32 for 16-bit inputs.
func (b *Builder) layerNorm(x, w, bias TensorID) TensorID {
	x = b.castFull(x)
	v := *b.tensor(x)
	ins := []TensorID{x}
	for _, p := range []TensorID{w, bias} {
		if p >= 0 {
			ins = append(ins, p)
		}
	}
	b.emit(OpLayerNorm, Attr{}, ins...).Scalar = b.constants.LayerNormEps
	out := b.fresh(v.DType, v.Shape, Dims{})
	stats := v.Shape.With(-1, 1)
	b.fresh(F32, stats, Dims{})
	b.fresh(F32, stats, Dims{})
	return out
}

// rmsNorm is Hugging Face's LlamaRMSNorm, composed of small ops:
//
//	x = x.to(float32); x = x * rsqrt(mean(x²) + ε); return weight * x.to(dtype)
func (b *Builder) rmsNorm(x, w TensorID) TensorID {
	dt := b.tensor(x).DType
	normed, variance := b.rms(x)
	low := b.to(normed, dt)
	out := b.mul(w, low)
	b.keep(normed, variance, x)
	return out
}

// rms is x / √(mean(x²)+ε) in fp32, and mean(x²), which its caller's frame holds.
func (b *Builder) rms(x TensorID) (normed, variance TensorID) {
	x = b.to(x, F32)
	variance = b.mean(b.withScalar(b.pow(x), 2))
	r := b.unary(OpRsqrt, b.withScalar(b.addScalar(variance), b.constants.RMSNormEps))
	normed = b.mul(x, r)
	b.keep(variance)
	return normed, variance
}

// fusedRMSNorm is F.rms_norm as one kernel (PyTorch ≥ 2.9 with equal dtypes).
func (b *Builder) fusedRMSNorm(x, w TensorID) TensorID {
	x = b.castFull(x)
	v := *b.tensor(x)
	b.emit(OpRMSNorm, Attr{}, x, w).Scalar = b.constants.RMSNormEps
	out := b.fresh(v.DType, v.Shape, Dims{})
	b.fresh(F32, v.Shape.With(-1, 1), Dims{})
	return out
}

// norm is the layer norm or RMSNorm that the spec names, over the last dimension of width h.
func (b *Builder) norm(x TensorID, name string, h int64) TensorID {
	switch b.spec.Norm {
	case "rmsnorm":
		return b.rmsNorm(x, b.weight(name+".weight", h))
	case "rmsnorm-fused":
		return b.fusedRMSNorm(x, b.weight(name+".weight", h))
	}
	if b.spec.PlainNorm {
		return b.layerNorm(x, None, None)
	}
	w := b.weight(name+".weight", h)
	bias := TensorID(None)
	if b.spec.Bias.Norm {
		bias = b.weight(name+".bias", h)
	}
	return b.layerNorm(x, w, bias)
}
