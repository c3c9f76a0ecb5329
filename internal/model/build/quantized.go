package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// A quantised base: bitsandbytes' Linear4bit in place of every nn.Linear inside the layers, as from_pretrained makes it with a
// BitsAndBytesConfig, with peft's adapters beside the targets. What is not quantised has the dtype of the spec's weights: the one that the
// checkpoint was loaded in, or fp32 after peft's prepare_model_for_kbit_training.
// Source: bitsandbytes 0.50, functional.py and nn/modules.py; transformers/integrations/bitsandbytes.py.

const (
	scaleBlock  = 64  // weights that share a scale
	nestedBlock = 256 // scales that share one of their own, with double quantisation
)

// nf4Bytes are the bytes of n quantised weights: half a byte each, a table of 16 values in fp32, and a scale for each block in fp32.
// With double quantisation a scale is one byte, and to all of them belong a table of 256 values, an offset, and scales in fp32.
func nf4Bytes(n int64, double bool) int64 {
	bytes, scales := (n+1)/2+16*4, blocks(n, scaleBlock)
	if !double {
		return bytes + 4*scales
	}
	return bytes + scales + 256*4 + 4 + 4*blocks(scales, nestedBlock)
}

func blocks(n, size int64) int64 { return (n + size - 1) / size }

// computeType is bnb_4bit_compute_dtype: the 16-bit type in use, bf16 if there is none.
func (b *Builder) computeType() dtype.DType {
	switch {
	case b.Amp:
		return b.castType
	case b.Dtype.Low():
		return b.Dtype
	}
	return dtype.BF16
}

// quantizedProject is Project with a quantised weight:
//
//	result = matmul_4bit(x.to(compute), w, bias).to(x.dtype)
//	result = result.clone(); result = result + (B(A(dropout(x.to(A.dtype)))) * scaling).to(result.dtype)
//
// Under autocast nothing is converted. Source: peft/tuners/lora/bnb.py, Linear4bit.forward.
func (b *Builder) quantizedProject(prefix, name string, x graph.TensorID, in, out int64, bias bool) graph.TensorID {
	compute, base := b.computeType(), b.Tensor(x).DType
	double := b.Spec.Train.LoRA.Base == "nf4-double"
	w := b.param(prefix+name+".weight", dtype.U8, false, graph.Shape(nf4Bytes(in*out, double)))
	b.G.Params[b.Tensor(w).Param].Count = in * out
	q := b.To(x, compute)
	ins := []graph.TensorID{q, w}
	if bias {
		ins = append(ins, b.param(prefix+name+".bias", compute, false, graph.Shape(out)))
	}
	kind := graph.OpMatmul4Bit
	if double {
		kind = graph.OpMatmul4BitDouble
	}
	b.Emit(kind, graph.Attr{}, ins...)
	y := b.Fresh(compute, b.Tensor(q).Shape.With(-1, out), graph.Dims{})
	b.Fresh(compute, graph.Shape(in, out), graph.Dims{})
	if double {
		b.Fresh(dtype.F32, graph.Shape(blocks(in*out, scaleBlock)), graph.Dims{})
	}
	b.Keep(q)
	res := b.To(y, base)
	b.Keep(x, q)
	if !b.adapts(name) {
		return res
	}
	res = b.clone(res)
	y = x
	if !b.Amp {
		y = b.To(x, b.adapterType())
	}
	add := b.lowRank(prefix, name, y, in, out)
	if !b.Amp {
		add = b.To(add, base)
	}
	sum := b.Add(res, add)
	b.Keep(x, y, res, add)
	return sum
}
