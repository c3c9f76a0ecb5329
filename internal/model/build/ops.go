package build

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// The ops below are PyTorch's functions of the same names, decomposed as the dispatcher does on CUDA.

// Add is x + y.
func (b *Builder) Add(x, y graph.TensorID) graph.TensorID {
	return b.Elementwise(graph.OpAdd, b.promote(x, y), x, y)
}

// Mul is x · y, element by element.
func (b *Builder) Mul(x, y graph.TensorID) graph.TensorID {
	return b.Elementwise(graph.OpMul, b.promote(x, y), x, y)
}

// Unary emits a one-input elementwise op in its input's dtype.
func (b *Builder) Unary(k graph.Kind, x graph.TensorID) graph.TensorID {
	return b.Elementwise(k, b.Tensor(x).DType, x)
}

// MulScalar multiplies by a number; see WithScalar.
func (b *Builder) MulScalar(x graph.TensorID) graph.TensorID { return b.Unary(graph.OpMulScalar, x) }

// AddScalar adds a number; see WithScalar.
func (b *Builder) AddScalar(x graph.TensorID) graph.TensorID { return b.Unary(graph.OpAddScalar, x) }

// WithScalar says which number the op emitted last, which made x, multiplies by, adds, or raises to.
func (b *Builder) WithScalar(x graph.TensorID, v float64) graph.TensorID {
	b.G.Ops[b.Next()-1].Scalar = v
	return x
}

// Pow is torch.pow(x, n); autocast runs it in fp32.
func (b *Builder) Pow(x graph.TensorID) graph.TensorID {
	return b.Unary(graph.OpPowScalar, b.castFull(x))
}

// castFull casts a 16-bit tensor to fp32 where the fp32 list of CUDA's autocast asks for it. The CPU's has losses only, so
// that norms, powers and softmax stay in 16 bits there.
// Source: aten/src/ATen/autocast_mode.h, AT_FORALL_FP32, and autocast_mode.cpp, TORCH_LIBRARY_IMPL(aten, AutocastCPU, m).
func (b *Builder) castFull(x graph.TensorID) graph.TensorID {
	if b.CPU {
		return x
	}
	return b.CastLoss(x)
}

// CastLoss is castFull for the input of a loss, which is in both lists.
func (b *Builder) CastLoss(x graph.TensorID) graph.TensorID {
	if b.Amp {
		return b.To(x, dtype.F32)
	}
	return x
}

// CastLow casts a tensor to the autocast type where autocast's 16-bit list asks for it. A leaf in fp32 that requires grad,
// such as a trained weight, is cast once and the copy kept until autocast exits; anything else is cast for each use.
// Source: aten/src/ATen/autocast_mode.cpp, cached_cast.
func (b *Builder) CastLow(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	if !b.Amp {
		return x
	}
	if leaf := v.Producer < 0 || b.G.Ops[v.Producer].Needs == 0; !leaf || !v.Grad || v.DType != dtype.F32 {
		return b.To(x, b.castType)
	}
	c, ok := b.casts[x]
	if !ok {
		c = b.To(x, b.castType)
		b.KeepUntil(c, graph.DropAfterForward)
		if v.Param >= 0 {
			b.G.StorageOf(c).Role = graph.WeightCast
		}
		b.casts[x] = c
	}
	return c
}

// To is x.to(dtype): itself if nothing changes.
func (b *Builder) To(x graph.TensorID, dt dtype.DType) graph.TensorID {
	if b.Tensor(x).DType == dt {
		return x
	}
	return b.Elementwise(graph.OpToCopy, dt, x)
}

// Reshape is a view where strides allow, else a contiguous copy.
func (b *Builder) Reshape(x graph.TensorID, shape ...int64) graph.TensorID {
	to := graph.Shape(shape...)
	v := b.Tensor(x)
	if st, ok := graph.ViewStrides(v.Shape, v.Stride, to); ok {
		return b.View(graph.OpView, graph.Attr{}, x, to, st)
	}
	c := b.clone(x)
	return b.View(graph.OpUnsafeView, graph.Attr{}, c, to, to.Contiguous())
}

// clone is a contiguous copy.
func (b *Builder) clone(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpClone, graph.Attr{}, x)
	return b.Fresh(v.DType, v.Shape, graph.Dims{})
}

// Contiguous is x itself, or a copy where it is strided.
func (b *Builder) Contiguous(x graph.TensorID) graph.TensorID {
	if v := b.Tensor(x); graph.IsContiguous(v.Shape, v.Stride) {
		return x
	}
	return b.clone(x)
}

// Transpose is a view with two dimensions exchanged.
func (b *Builder) Transpose(x graph.TensorID, i, j int) graph.TensorID {
	v := b.Tensor(x)
	i, j = v.Shape.Axis(i), v.Shape.Axis(j)
	return b.View(graph.OpTranspose, graph.Attr{A: int64(i), B: int64(j)}, x, v.Shape.Swap(i, j), v.Stride.Swap(i, j))
}

// Unsqueeze is a view with a dimension of 1 at i.
func (b *Builder) Unsqueeze(x graph.TensorID, i int) graph.TensorID {
	v := b.Tensor(x)
	st := int64(1)
	if i < int(v.Shape.N) {
		st = v.Shape.D[i] * v.Stride.D[i]
	}
	return b.View(graph.OpUnsqueeze, graph.Attr{A: int64(i)}, x, v.Shape.Insert(i, 1), v.Stride.Insert(i, st))
}

// Expand is a view with dimensions of 1 repeated.
func (b *Builder) Expand(x graph.TensorID, shape ...int64) graph.TensorID {
	v := b.Tensor(x)
	to := graph.Shape(shape...)
	if to == v.Shape {
		return x
	}
	st := graph.Dims{N: to.N}
	off := int(to.N - v.Shape.N)
	for i := range v.Shape.D[:v.Shape.N] {
		if v.Shape.D[i] == to.D[off+i] {
			st.D[off+i] = v.Stride.D[i]
		}
	}
	return b.View(graph.OpExpand, graph.Attr{}, x, to, st)
}

// Slice is x[..., from:to] in dimension i.
func (b *Builder) Slice(x graph.TensorID, i int, from, to int64) graph.TensorID {
	v := b.Tensor(x)
	i = v.Shape.Axis(i)
	at := v.Offset + from*v.Stride.D[i]
	o := b.View(graph.OpSlice, graph.Attr{A: int64(i), B: from}, x, v.Shape.With(i, to-from), v.Stride)
	b.Tensor(o).Offset = at
	return o
}

// Pick is x.select(i, k): one index of dimension i.
func (b *Builder) Pick(x graph.TensorID, i, k int) graph.TensorID {
	v := b.Tensor(x)
	i = v.Shape.Axis(i)
	at := v.Offset + int64(k)*v.Stride.D[i]
	o := b.View(graph.OpSelect, graph.Attr{A: int64(i), B: int64(k)}, x, v.Shape.Remove(i), v.Stride.Remove(i))
	b.Tensor(o).Offset = at
	return o
}

// Split is x.split(sizes, i): views, whose gradients are put together by one cat.
func (b *Builder) Split(x graph.TensorID, i int, sizes ...int64) []graph.TensorID {
	v := *b.Tensor(x)
	i = v.Shape.Axis(i)
	outs, at := make([]graph.TensorID, len(sizes)), v.Offset
	if v.Grad {
		b.Emit(graph.OpSplit, graph.Attr{A: int64(i)}, x)
	}
	for k, n := range sizes {
		o := v
		o.Layout, o.View, o.Offset = b.Layouts.Of(v.Shape.With(i, n), v.Stride), true, at
		at += n * v.Stride.D[i]
		if v.Grad {
			outs[k] = b.Output(o)
		} else {
			o.Param = graph.None
			b.G.Tensors = append(b.G.Tensors, o)
			outs[k] = graph.TensorID(len(b.G.Tensors) - 1)
		}
	}
	return outs
}

// Cat is torch.cat along dimension i.
func (b *Builder) Cat(i int, xs ...graph.TensorID) graph.TensorID {
	v := *b.Tensor(xs[0])
	i = v.Shape.Axis(i)
	n := int64(0)
	dt := v.DType
	for _, x := range xs {
		n += b.Tensor(x).Shape.D[i]
		dt = b.promote(x, xs[0])
	}
	b.Emit(graph.OpCat, graph.Attr{A: int64(i)}, xs...)
	return b.Fresh(dt, v.Shape.With(i, n), graph.Dims{})
}

// Mean and sum over the last dimension, kept as 1.
func (b *Builder) Mean(x graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpMean, graph.Attr{}, x)
	return b.Fresh(v.DType, v.Shape.With(-1, 1), graph.Dims{})
}

// Dropout is F.dropout in training; x itself for p = 0.
func (b *Builder) Dropout(x graph.TensorID, p float64) graph.TensorID {
	if p == 0 {
		return x
	}
	if b.CPU {
		return b.cpuDropout(x)
	}
	v := *b.Tensor(x)
	b.Emit(graph.OpDropout, graph.Attr{}, x).Drop = p
	st := graph.ElementwiseStrides(v.Shape, v.Layout)
	out := b.Fresh(v.DType, v.Shape, st)
	b.Fresh(dtype.Bool, v.Shape, st)
	return out
}

// Softmax over the last dimension with the result in dt.
func (b *Builder) Softmax(x graph.TensorID, dt dtype.DType) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpSoftmax, graph.Attr{}, x)
	return b.Fresh(dt, v.Shape, graph.Dims{})
}

// Matmul is torch.matmul of two tensors of equal rank: operands become 3-D, by copy where they cannot be viewed.
func (b *Builder) Matmul(x, y graph.TensorID) graph.TensorID {
	lx, ly := b.CastLow(x), b.CastLow(y)
	out := b.bmm4(lx, ly)
	b.Keep(lx, ly)
	return out
}

func (b *Builder) bmm4(x, y graph.TensorID) graph.TensorID {
	sx, sy := b.Tensor(x).Shape, b.Tensor(y).Shape
	batch := int64(1)
	for _, d := range sx.D[:sx.N-2] {
		batch *= d
	}
	m, k, n := sx.At(-2), sx.At(-1), sy.At(-1)
	x3 := b.Reshape(x, batch, m, k)
	y3 := b.Reshape(y, batch, k, n)
	o := b.Bmm(x3, y3)
	out := sx.With(-1, n)
	return b.View(graph.OpUnsafeView, graph.Attr{}, o, out, out.Contiguous())
}

// Bmm is torch.bmm of [b, m, k] and [b, k, n].
func (b *Builder) Bmm(x, y graph.TensorID) graph.TensorID {
	sx, sy, dt := b.Tensor(x).Shape, b.Tensor(y).Shape, b.Tensor(x).DType
	b.Emit(graph.OpBMM, graph.Attr{}, x, y)
	return b.Fresh(dt, graph.Shape(sx.D[0], sx.D[1], sy.D[2]), graph.Dims{})
}

func (b *Builder) mm(x, y graph.TensorID) graph.TensorID {
	n, m, dt := b.Tensor(x).Shape.D[0], b.Tensor(y).Shape.D[1], b.Tensor(x).DType
	b.Emit(graph.OpMM, graph.Attr{}, x, y)
	return b.Fresh(dt, graph.Shape(n, m), graph.Dims{})
}

func (b *Builder) addmm(bias, x, y graph.TensorID) graph.TensorID {
	n, m, dt := b.Tensor(x).Shape.D[0], b.Tensor(y).Shape.D[1], b.Tensor(x).DType
	b.Emit(graph.OpAddMM, graph.Attr{}, bias, x, y)
	return b.Fresh(dt, graph.Shape(n, m), graph.Dims{})
}

// Linear is F.linear: with a bias one addmm on the 2-D input, without one matmul with the transposed weight.
// Source: aten/src/ATen/native/Linear.cpp.
func (b *Builder) Linear(x, w, bias graph.TensorID) graph.TensorID {
	lx, lw := b.CastLow(x), b.CastLow(w)
	s := b.Tensor(lx).Shape
	out := s.With(-1, b.Tensor(lw).Shape.D[0])
	rows := s.Count() / s.At(-1)
	var o graph.TensorID
	if bias >= 0 {
		lb := b.CastLow(bias)
		if s.N > 2 && !graph.IsContiguous(s, b.Tensor(lx).Stride) {
			o = b.MatmulRows(lx, b.Transpose(lw, 0, 1), rows)
			o = b.View(graph.OpUnsafeView, graph.Attr{}, o, out, out.Contiguous())
			o = b.AddInPlace(o, lb)
			b.Keep(lx)
			return o
		}
		x2 := lx
		if s.N > 2 {
			x2 = b.Reshape(lx, rows, s.At(-1))
		}
		o = b.addmm(lb, x2, b.Transpose(lw, 0, 1))
		if s.N > 2 {
			o = b.View(graph.OpView, graph.Attr{}, o, out, out.Contiguous())
		}
	} else {
		wt := b.Transpose(lw, 0, 1)
		o = b.MatmulRows(lx, wt, rows)
		if s.N > 2 {
			o = b.View(graph.OpUnsafeView, graph.Attr{}, o, out, out.Contiguous())
		}
	}
	b.Keep(lx)
	return o
}

// MatmulRows is x as a matrix of so many rows, times wt.
func (b *Builder) MatmulRows(x, wt graph.TensorID, rows int64) graph.TensorID {
	if b.Tensor(x).Shape.N > 2 {
		x = b.Reshape(x, rows, b.Tensor(x).Shape.At(-1))
	}
	return b.mm(x, wt)
}

// AddInPlace is x.add_(y): x's storage, a new node.
func (b *Builder) AddInPlace(x, y graph.TensorID) graph.TensorID {
	v := *b.Tensor(x)
	b.Emit(graph.OpAdd, graph.Attr{}, x, y)
	return b.Output(v)
}

// conv1d is Hugging Face's Conv1D (GPT-2): an addmm with a weight that is not transposed.
func (b *Builder) conv1d(x, w, bias graph.TensorID) graph.TensorID {
	s := b.Tensor(x).Shape
	x2 := b.Reshape(x, s.Count()/s.At(-1), s.At(-1))
	lx, lw, lb := b.CastLow(x2), b.CastLow(w), b.CastLow(bias)
	o := b.addmm(lb, lx, lw)
	b.Keep(lx)
	out := s.With(-1, b.Tensor(w).Shape.D[1])
	return b.View(graph.OpView, graph.Attr{}, o, out, out.Contiguous())
}

// Embedding looks rows of w up.
func (b *Builder) Embedding(w, ids graph.TensorID) graph.TensorID {
	dt, h, s := b.Tensor(w).DType, b.Tensor(w).Shape.D[1], b.Tensor(ids).Shape
	b.Emit(graph.OpEmbedding, graph.Attr{}, w, ids)
	return b.Fresh(dt, s.Append(h), graph.Dims{})
}

// Plain emits an op without gradient whose name the profiler shows, with one new output.
func (b *Builder) Plain(name string, dt dtype.DType, shape graph.Dims, ins ...graph.TensorID) graph.TensorID {
	b.Emit(graph.OpPlain, graph.Attr{}, ins...)
	t := b.Fresh(dt, shape, graph.Dims{})
	b.G.StorageOf(t).Name = name
	return t
}

// Argument says that a layer or a module of it is given x, whether or not it reads it: SDPA takes a causal hint instead of the mask.
func (b *Builder) Argument(x graph.TensorID) {
	if x >= 0 {
		b.Emit(graph.OpArgument, graph.Attr{}, x)
	}
}

// Squeeze is x without dimension i, which has one element.
func (b *Builder) Squeeze(x graph.TensorID, i int) graph.TensorID {
	v := b.Tensor(x)
	return b.View(graph.OpSqueeze, graph.Attr{A: int64(i)}, x, v.Shape.Remove(i), v.Stride.Remove(i))
}

// Alias is hidden_states[:, slice(0, None), :].
func (b *Builder) Alias(x graph.TensorID) graph.TensorID {
	v := b.Tensor(x)
	return b.View(graph.OpAlias, graph.Attr{}, x, v.Shape, v.Stride)
}
