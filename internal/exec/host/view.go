package host

import (
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// view is an argument of a kernel.
type view struct{ gpu.View }

func (v view) broadcast(to graph.Dims) view { v.Tensor = v.Broadcast(to); return v }

func (v view) part(i int64) view { v.Tensor = v.Part(i); return v }

func (v view) swapped(i, j int) view { v.Tensor = v.Swapped(i, j); return v }

func (v view) narrow(i int, start, n int64) view { v.Tensor = v.Narrow(i, start, n); return v }

// copyFrom stores another tensor's values, converted to this one's type.
func (v view) copyFrom(src view) {
	switch {
	case gpu.Real(v.DType):
		v.SetReals(src.Reals())
	case v.DType == dtype.Bool:
		v.SetBools(src.Bools())
	case gpu.Real(src.DType) || src.DType == dtype.Bool:
		out := make([]int64, src.Count())
		for i, x := range src.Reals() {
			out[i] = int64(x)
		}
		v.SetInts(out)
	default:
		v.SetInts(src.Ints())
	}
}

// fill stores one value everywhere.
func (v view) fill(x float32) {
	switch n := int(v.Count()); {
	case gpu.Real(v.DType):
		v.SetReals(slices.Repeat([]float32{x}, n))
	case v.DType == dtype.Bool:
		v.SetBools(slices.Repeat([]bool{x != 0}, n))
	default:
		v.SetInts(slices.Repeat([]int64{int64(x)}, n))
	}
}

// reduced are the sums of a tensor over the dimensions that are 1 in kept.
func reduced(v view, kept graph.Dims) []float32 {
	total := make([]float64, kept.Count())
	at := gpu.Tensor{Shape: kept, Stride: kept.Contiguous()}.Broadcast(v.Shape)
	x := v.Reals()
	k := 0
	at.Rows(func(pos, step, n int64) {
		for range n {
			total[pos] += float64(x[k])
			pos += step
			k++
		}
	})
	out := make([]float32, len(total))
	for i, x := range total {
		out[i] = float32(x)
	}
	return out
}

// plus adds y to x in place.
func plus(x, y []float32) []float32 {
	for i := range x {
		x[i] += y[i]
	}
	return x
}
