package gpu

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// Tensor is a strided view of an allocation on a device. Offset and strides are in elements. Ptr is 0 for an optional
// argument that is absent.
type Tensor struct {
	Ptr           DevicePtr
	Shape, Stride graph.Dims
	Offset        int64
	DType         dtype.DType
}

// Count is the number of elements.
func (t Tensor) Count() int64 { return t.Shape.Count() }

// Dense reports whether the elements lie in row-major order without gaps.
func (t Tensor) Dense() bool { return graph.IsContiguous(t.Shape, t.Stride) }

// Span is the range of elements of the allocation that the tensor touches: from first up to but not including end.
func (t Tensor) Span() (first, end int64) {
	if t.Count() == 0 {
		return t.Offset, t.Offset
	}
	last := t.Offset
	for i := range t.Shape.D[:t.Shape.N] {
		last += (t.Shape.D[i] - 1) * t.Stride.D[i]
	}
	return t.Offset, last + 1
}

// Broadcast is the tensor seen with a larger shape.
func (t Tensor) Broadcast(to graph.Dims) Tensor {
	if t.Shape == to {
		return t
	}
	st := graph.Dims{N: to.N}
	off := int(to.N - t.Shape.N)
	for i := range t.Shape.D[:t.Shape.N] {
		if t.Shape.D[i] == to.D[off+i] {
			st.D[off+i] = t.Stride.D[i]
		}
	}
	t.Shape, t.Stride = to, st
	return t
}

// Part is index i of the first dimension.
func (t Tensor) Part(i int64) Tensor {
	t.Offset += i * t.Stride.D[0]
	t.Shape, t.Stride = t.Shape.Remove(0), t.Stride.Remove(0)
	return t
}

// Swapped is the tensor with two dimensions exchanged.
func (t Tensor) Swapped(i, j int) Tensor {
	t.Shape, t.Stride = t.Shape.Swap(i, j), t.Stride.Swap(i, j)
	return t
}

// Narrow is n indices of dimension i from start on.
func (t Tensor) Narrow(i int, start, n int64) Tensor {
	t.Offset += start * t.Stride.D[i]
	t.Shape = t.Shape.With(i, n)
	return t
}

// Rows calls yield for every row of the last dimension, in row-major order: where it starts, its step and its length.
func (t Tensor) Rows(yield func(at, step, n int64)) {
	if t.Shape.N == 0 {
		yield(t.Offset, 1, 1)
		return
	}
	if t.Count() == 0 {
		return
	}
	last := int(t.Shape.N) - 1
	var at [graph.MaxRank]int64
	pos := t.Offset
	for {
		yield(pos, t.Stride.D[last], t.Shape.D[last])
		i := last - 1
		for ; i >= 0; i-- {
			at[i]++
			pos += t.Stride.D[i]
			if at[i] < t.Shape.D[i] {
				break
			}
			pos -= at[i] * t.Stride.D[i]
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
