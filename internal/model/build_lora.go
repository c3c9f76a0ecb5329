package model

import "slices"

// project is a linear layer by module name, with peft's adapter beside it if the name is a target:
//
//	result = base(x); x = x.to(A.dtype); result = result + B(A(dropout(x))) * scaling; return result.to(dtype)
//
// Source: peft/tuners/lora/layer.py, Linear.forward.
func (b *Builder) project(prefix, name string, x TensorID, in, out int64, bias bool) TensorID {
	w := b.weight(prefix+name+".weight", out, in)
	bb := TensorID(None)
	if bias {
		bb = b.weight(prefix+name+".bias", out)
	}
	return b.adapter(prefix, name, x, b.linearLayer(x, w, bb), in, out)
}

// projectConv1D is GPT-2's Conv1D by module name, a linear layer with a bias whose weight is [in, out], with peft's
// adapter beside it if the name is a target.
func (b *Builder) projectConv1D(prefix, name string, x TensorID, in, out int64) TensorID {
	res := b.conv1d(x, b.weight(prefix+name+".weight", in, out), b.weight(prefix+name+".bias", out))
	return b.adapter(prefix, name, x, res, in, out)
}

// adapter adds peft's adapter to the base layer's result res, if the layer is a target.
func (b *Builder) adapter(prefix, name string, x, res TensorID, in, out int64) TensorID {
	l := b.spec.Train.LoRA
	if l == nil || !slices.Contains(l.Targets, name) {
		return res
	}
	dt := F32
	switch l.DType {
	case "bf16":
		dt = BF16
	case "fp16":
		dt = F16
	}
	r := int64(l.Rank)
	wa := b.param(prefix+name+".lora_A.weight", dt, true, Shape(r, in))
	wb := b.param(prefix+name+".lora_B.weight", dt, true, Shape(out, r))
	base := b.tensor(res).DType
	y := b.to(x, dt)
	z := b.dropout(y, l.Dropout)
	h := b.linear(z, wa, None)
	b.keep(z)
	up := b.linear(h, wb, None)
	b.keep(h)
	sum := b.add(res, b.withScalar(b.mulScalar(up), l.Alpha/float64(l.Rank)))
	b.keep(x, y, res)
	o := b.to(sum, base)
	b.keep(x, y, sum)
	return o
}

// inputRequiresGrad is peft's enable_input_require_grads: with frozen weights and any checkpointing, the embedding's
// output is made a leaf that requires grad.
func (b *Builder) inputRequiresGrad(x TensorID) TensorID {
	if b.spec.Train.LoRA != nil && b.inputGrad() {
		b.tensor(x).Grad = true
		b.keepUntil(x, DropAfterBackward)
	}
	return x
}
