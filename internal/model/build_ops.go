package model

// The ops below are PyTorch's functions of the same names, decomposed as the dispatcher does on CUDA.

func (b *Builder) add(x, y TensorID) TensorID { return b.elementwise(OpAdd, b.promote(x, y), x, y) }
func (b *Builder) mul(x, y TensorID) TensorID { return b.elementwise(OpMul, b.promote(x, y), x, y) }

// unary emits a one-input elementwise op in its input's dtype.
func (b *Builder) unary(k Kind, x TensorID) TensorID { return b.elementwise(k, b.tensor(x).DType, x) }

func (b *Builder) mulScalar(x TensorID) TensorID { return b.unary(OpMulScalar, x) }
func (b *Builder) addScalar(x TensorID) TensorID { return b.unary(OpAddScalar, x) }

// withScalar says which number the op emitted last, which made x, multiplies by, adds, or raises to.
func (b *Builder) withScalar(x TensorID, v float64) TensorID {
	b.g.Ops[b.next()-1].Scalar = v
	return x
}

// pow is torch.pow(x, n); autocast runs it in fp32.
func (b *Builder) pow(x TensorID) TensorID { return b.unary(OpPowScalar, b.castFull(x)) }

// castFull casts a 16-bit tensor to fp32 where the fp32 list of CUDA's autocast asks for it. The CPU's has losses only, so
// that norms, powers and softmax stay in 16 bits there.
// Source: aten/src/ATen/autocast_mode.h, AT_FORALL_FP32, and autocast_mode.cpp, TORCH_LIBRARY_IMPL(aten, AutocastCPU, m).
func (b *Builder) castFull(x TensorID) TensorID {
	if b.CPU {
		return x
	}
	return b.castLoss(x)
}

// castLoss is castFull for the input of a loss, which is in both lists.
func (b *Builder) castLoss(x TensorID) TensorID {
	if b.amp {
		return b.to(x, F32)
	}
	return x
}

// castLow casts an fp32 tensor to the autocast type where autocast's 16-bit list asks for it. A leaf that requires grad,
// such as a trained weight, is cast once and the copy kept until autocast exits; anything else is cast for each use.
// Source: aten/src/ATen/autocast_mode.cpp, cached_cast.
func (b *Builder) castLow(x TensorID) TensorID {
	v := *b.tensor(x)
	if !b.amp || v.DType != F32 {
		return x
	}
	if leaf := v.Producer < 0 || b.g.Ops[v.Producer].Needs == 0; !leaf || !v.Grad {
		return b.to(x, b.castType)
	}
	c, ok := b.casts[x]
	if !ok {
		c = b.to(x, b.castType)
		b.keepUntil(c, DropAfterForward)
		if v.Param >= 0 {
			b.g.storageOf(c).Role = WeightCast
		}
		b.casts[x] = c
	}
	return c
}

// to is x.to(dtype): itself if nothing changes.
func (b *Builder) to(x TensorID, dt DType) TensorID {
	if b.tensor(x).DType == dt {
		return x
	}
	return b.elementwise(OpToCopy, dt, x)
}

// reshape is a view where strides allow, else a contiguous copy.
func (b *Builder) reshape(x TensorID, shape ...int64) TensorID {
	to := Shape(shape...)
	v := b.tensor(x)
	if st, ok := ViewStrides(v.Shape, v.Stride, to); ok {
		return b.view(OpView, Attr{}, x, to, st)
	}
	c := b.clone(x)
	return b.view(OpUnsafeView, Attr{}, c, to, to.Contiguous())
}

// clone is a contiguous copy.
func (b *Builder) clone(x TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(OpClone, Attr{}, x)
	return b.fresh(v.DType, v.Shape, Dims{})
}

func (b *Builder) contiguous(x TensorID) TensorID {
	if v := b.tensor(x); IsContiguous(v.Shape, v.Stride) {
		return x
	}
	return b.clone(x)
}

func (b *Builder) transpose(x TensorID, i, j int) TensorID {
	v := b.tensor(x)
	i, j = v.Shape.axis(i), v.Shape.axis(j)
	return b.view(OpTranspose, Attr{A: int64(i), B: int64(j)}, x, v.Shape.Swap(i, j), v.Stride.Swap(i, j))
}

func (b *Builder) unsqueeze(x TensorID, i int) TensorID {
	v := b.tensor(x)
	st := int64(1)
	if i < int(v.Shape.N) {
		st = v.Shape.D[i] * v.Stride.D[i]
	}
	return b.view(OpUnsqueeze, Attr{A: int64(i)}, x, v.Shape.Insert(i, 1), v.Stride.Insert(i, st))
}

func (b *Builder) expand(x TensorID, shape ...int64) TensorID {
	v := b.tensor(x)
	to := Shape(shape...)
	if to == v.Shape {
		return x
	}
	st := Dims{N: to.N}
	off := int(to.N - v.Shape.N)
	for i := range v.Shape.D[:v.Shape.N] {
		if v.Shape.D[i] == to.D[off+i] {
			st.D[off+i] = v.Stride.D[i]
		}
	}
	return b.view(OpExpand, Attr{}, x, to, st)
}

// slice is x[..., from:to] in dimension i.
func (b *Builder) slice(x TensorID, i int, from, to int64) TensorID {
	v := b.tensor(x)
	i = v.Shape.axis(i)
	at := v.Offset + from*v.Stride.D[i]
	o := b.view(OpSlice, Attr{A: int64(i), B: from}, x, v.Shape.With(i, to-from), v.Stride)
	b.tensor(o).Offset = at
	return o
}

// pick is x.select(i, k): one index of dimension i.
func (b *Builder) pick(x TensorID, i, k int) TensorID {
	v := b.tensor(x)
	i = v.Shape.axis(i)
	at := v.Offset + int64(k)*v.Stride.D[i]
	o := b.view(OpSelect, Attr{A: int64(i), B: int64(k)}, x, v.Shape.Remove(i), v.Stride.Remove(i))
	b.tensor(o).Offset = at
	return o
}

// split is x.split(sizes, i): views, whose gradients are put together by one cat.
func (b *Builder) split(x TensorID, i int, sizes ...int64) []TensorID {
	v := *b.tensor(x)
	i = v.Shape.axis(i)
	outs, at := make([]TensorID, len(sizes)), v.Offset
	if v.Grad {
		b.emit(OpSplit, Attr{A: int64(i)}, x)
	}
	for k, n := range sizes {
		o := v
		o.Layout, o.View, o.Offset = b.layouts.Of(v.Shape.With(i, n), v.Stride), true, at
		at += n * v.Stride.D[i]
		if v.Grad {
			outs[k] = b.output(o)
		} else {
			o.Param = None
			b.g.Tensors = append(b.g.Tensors, o)
			outs[k] = TensorID(len(b.g.Tensors) - 1)
		}
	}
	return outs
}

func (b *Builder) cat(i int, xs ...TensorID) TensorID {
	v := *b.tensor(xs[0])
	i = v.Shape.axis(i)
	n := int64(0)
	dt := v.DType
	for _, x := range xs {
		n += b.tensor(x).Shape.D[i]
		dt = b.promote(x, xs[0])
	}
	b.emit(OpCat, Attr{A: int64(i)}, xs...)
	return b.fresh(dt, v.Shape.With(i, n), Dims{})
}

// mean and sum over the last dimension, kept as 1.
func (b *Builder) mean(x TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(OpMean, Attr{}, x)
	return b.fresh(v.DType, v.Shape.With(-1, 1), Dims{})
}

func (b *Builder) dropout(x TensorID, p float64) TensorID {
	if p == 0 {
		return x
	}
	if b.CPU {
		return b.cpuDropout(x)
	}
	v := *b.tensor(x)
	b.emit(OpDropout, Attr{}, x).Drop = p
	st := ElementwiseStrides(v.Shape, v.Layout)
	out := b.fresh(v.DType, v.Shape, st)
	b.fresh(Bool, v.Shape, st)
	return out
}

// softmax over the last dimension with the result in dt.
func (b *Builder) softmax(x TensorID, dt DType) TensorID {
	v := *b.tensor(x)
	b.emit(OpSoftmax, Attr{}, x)
	return b.fresh(dt, v.Shape, Dims{})
}

// matmul is torch.matmul of two tensors of equal rank: operands become 3-D, by copy where they cannot be viewed.
func (b *Builder) matmul(x, y TensorID) TensorID {
	lx, ly := b.castLow(x), b.castLow(y)
	out := b.bmm4(lx, ly)
	b.keep(lx, ly)
	return out
}

func (b *Builder) bmm4(x, y TensorID) TensorID {
	sx, sy := b.tensor(x).Shape, b.tensor(y).Shape
	batch := int64(1)
	for _, d := range sx.D[:sx.N-2] {
		batch *= d
	}
	m, k, n := sx.At(-2), sx.At(-1), sy.At(-1)
	x3 := b.reshape(x, batch, m, k)
	y3 := b.reshape(y, batch, k, n)
	o := b.bmm(x3, y3)
	out := sx.With(-1, n)
	return b.view(OpUnsafeView, Attr{}, o, out, out.Contiguous())
}

func (b *Builder) bmm(x, y TensorID) TensorID {
	sx, sy, dt := b.tensor(x).Shape, b.tensor(y).Shape, b.tensor(x).DType
	b.emit(OpBMM, Attr{}, x, y)
	return b.fresh(dt, Shape(sx.D[0], sx.D[1], sy.D[2]), Dims{})
}

func (b *Builder) mm(x, y TensorID) TensorID {
	n, m, dt := b.tensor(x).Shape.D[0], b.tensor(y).Shape.D[1], b.tensor(x).DType
	b.emit(OpMM, Attr{}, x, y)
	return b.fresh(dt, Shape(n, m), Dims{})
}

func (b *Builder) addmm(bias, x, y TensorID) TensorID {
	n, m, dt := b.tensor(x).Shape.D[0], b.tensor(y).Shape.D[1], b.tensor(x).DType
	b.emit(OpAddMM, Attr{}, bias, x, y)
	return b.fresh(dt, Shape(n, m), Dims{})
}

// linear is F.linear: with a bias one addmm on the 2-D input, without one matmul with the transposed weight.
// Source: aten/src/ATen/native/Linear.cpp.
func (b *Builder) linear(x, w, bias TensorID) TensorID {
	lx, lw := b.castLow(x), b.castLow(w)
	s := b.tensor(lx).Shape
	out := s.With(-1, b.tensor(lw).Shape.D[0])
	rows := s.Count() / s.At(-1)
	var o TensorID
	if bias >= 0 {
		lb := b.castLow(bias)
		if s.N > 2 && !IsContiguous(s, b.tensor(lx).Stride) {
			o = b.matmulRows(lx, b.transpose(lw, 0, 1), rows)
			o = b.view(OpUnsafeView, Attr{}, o, out, out.Contiguous())
			o = b.addInPlace(o, lb)
			b.keep(lx)
			return o
		}
		x2 := lx
		if s.N > 2 {
			x2 = b.reshape(lx, rows, s.At(-1))
		}
		o = b.addmm(lb, x2, b.transpose(lw, 0, 1))
		if s.N > 2 {
			o = b.view(OpView, Attr{}, o, out, out.Contiguous())
		}
	} else {
		wt := b.transpose(lw, 0, 1)
		o = b.matmulRows(lx, wt, rows)
		if s.N > 2 {
			o = b.view(OpUnsafeView, Attr{}, o, out, out.Contiguous())
		}
	}
	b.keep(lx)
	return o
}

func (b *Builder) matmulRows(x, wt TensorID, rows int64) TensorID {
	if b.tensor(x).Shape.N > 2 {
		x = b.reshape(x, rows, b.tensor(x).Shape.At(-1))
	}
	return b.mm(x, wt)
}

// addInPlace is x.add_(y): x's storage, a new node.
func (b *Builder) addInPlace(x, y TensorID) TensorID {
	v := *b.tensor(x)
	b.emit(OpAdd, Attr{}, x, y)
	return b.output(v)
}

// conv1d is Hugging Face's Conv1D (GPT-2): an addmm with a weight that is not transposed.
func (b *Builder) conv1d(x, w, bias TensorID) TensorID {
	s := b.tensor(x).Shape
	x2 := b.reshape(x, s.Count()/s.At(-1), s.At(-1))
	lx, lw, lb := b.castLow(x2), b.castLow(w), b.castLow(bias)
	o := b.addmm(lb, lx, lw)
	b.keep(lx)
	out := s.With(-1, b.tensor(w).Shape.D[1])
	return b.view(OpView, Attr{}, o, out, out.Contiguous())
}

// embedding looks rows of w up.
func (b *Builder) embedding(w, ids TensorID) TensorID {
	dt, h, s := b.tensor(w).DType, b.tensor(w).Shape.D[1], b.tensor(ids).Shape
	b.emit(OpEmbedding, Attr{}, w, ids)
	return b.fresh(dt, s.Append(h), Dims{})
}

// plain emits an op without gradient whose name the profiler shows, with one new output.
func (b *Builder) plain(name string, dt DType, shape Dims, ins ...TensorID) TensorID {
	b.emit(OpPlain, Attr{}, ins...)
	t := b.fresh(dt, shape, Dims{})
	b.g.storageOf(t).Name = name
	return t
}

// argument says that a layer or a module of it is given x, whether or not it reads it: SDPA takes a causal hint instead of the mask.
func (b *Builder) argument(x TensorID) {
	if x >= 0 {
		b.emit(OpArgument, Attr{}, x)
	}
}

// squeeze is x without dimension i, which has one element.
func (b *Builder) squeeze(x TensorID, i int) TensorID {
	v := b.tensor(x)
	return b.view(OpSqueeze, Attr{A: int64(i)}, x, v.Shape.Remove(i), v.Stride.Remove(i))
}

// alias is hidden_states[:, slice(0, None), :].
func (b *Builder) alias(x TensorID) TensorID {
	v := b.tensor(x)
	return b.view(OpAlias, Attr{}, x, v.Shape, v.Stride)
}
