package build

import (
	"slices"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// Project is a linear layer by module name, with peft's adapter beside it if the name is a target:
//
//	result = base(x); x = x.to(A.dtype); result = result + B(A(dropout(x))) * scaling; return result.to(dtype)
//
// Source: peft/tuners/lora/layer.py, Linear.forward.
func (b *Builder) Project(prefix, name string, x graph.TensorID, in, out int64, bias bool) graph.TensorID {
	if l := b.Spec.Train.LoRA; l != nil && l.Base != "" {
		return b.quantizedProject(prefix, name, x, in, out, bias)
	}
	w := b.Weight(prefix+name+".weight", out, in)
	bb := graph.TensorID(graph.None)
	if bias {
		bb = b.Weight(prefix+name+".bias", out)
	}
	return b.adapter(prefix, name, x, b.LinearLayer(x, w, bb), in, out)
}

// ProjectConv1D is GPT-2's Conv1D by module name, a linear layer with a bias whose weight is [in, out], with peft's
// adapter beside it if the name is a target.
func (b *Builder) ProjectConv1D(prefix, name string, x graph.TensorID, in, out int64) graph.TensorID {
	res := b.conv1d(x, b.Weight(prefix+name+".weight", in, out), b.Weight(prefix+name+".bias", out))
	return b.adapter(prefix, name, x, res, in, out)
}

// adapter adds peft's adapter to the base layer's result res, if the layer is a target.
func (b *Builder) adapter(prefix, name string, x, res graph.TensorID, in, out int64) graph.TensorID {
	if !b.adapts(name) {
		return res
	}
	base := b.Tensor(res).DType
	y := b.To(x, b.adapterType())
	sum := b.Add(res, b.lowRank(prefix, name, y, in, out))
	b.Keep(x, y, res)
	o := b.To(sum, base)
	b.Keep(x, y, sum)
	return o
}

// adapts is true for a linear layer that has an adapter.
func (b *Builder) adapts(name string) bool {
	return b.Spec.Train.LoRA != nil && slices.Contains(b.Spec.Train.LoRA.Targets, name)
}

// adapterType is the dtype of the adapters' weights.
func (b *Builder) adapterType() dtype.DType {
	switch b.Spec.Train.LoRA.DType {
	case "bf16":
		return dtype.BF16
	case "fp16":
		return dtype.F16
	}
	return dtype.F32
}

// lowRank is B(A(dropout(x))) * scaling.
func (b *Builder) lowRank(prefix, name string, x graph.TensorID, in, out int64) graph.TensorID {
	l := b.Spec.Train.LoRA
	r := int64(l.Rank)
	wa := b.param(prefix+name+".lora_A.weight", b.adapterType(), true, graph.Shape(r, in))
	wb := b.param(prefix+name+".lora_B.weight", b.adapterType(), true, graph.Shape(out, r))
	z := b.Dropout(x, l.Dropout)
	h := b.Linear(z, wa, graph.None)
	b.Keep(z)
	up := b.Linear(h, wb, graph.None)
	b.Keep(h)
	return b.WithScalar(b.MulScalar(up), l.Alpha/float64(l.Rank))
}

// InputRequiresGrad is peft's enable_input_require_grads: with frozen weights and any checkpointing, the embedding's
// output is made a leaf that requires grad.
func (b *Builder) InputRequiresGrad(x graph.TensorID) graph.TensorID {
	if b.Spec.Train.LoRA != nil && b.inputGrad() {
		b.Tensor(x).Grad = true
		b.KeepUntil(x, graph.DropAfterBackward)
	}
	return x
}
