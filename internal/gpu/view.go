package gpu

import (
	"unsafe"

	"ckptplan/internal/model/dtype"
)

// View is a tensor whose allocation this process can read and write: memory of the host, or a copy of a device's.
type View struct {
	Tensor
	Mem []byte
	// Work is where Reals puts values that are not in Mem as they are wanted.
	Work *Workspace
}

// number is an element as it lies in memory.
type number interface {
	~float32 | ~uint16 | ~int64 | ~int32 | ~bool
}

// as is an allocation as a slice of numbers.
func as[T number](mem []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem))/unsafe.Sizeof(zero))
}

// Reals are the values in row-major order, as float32 whatever their type. They must not be written: they may be the
// memory itself, else they last until Work is reset.
func (v View) Reals() []float32 {
	switch v.DType {
	case dtype.F32:
		return ordered(v.Tensor, as[float32](v.Mem), v.Work.Take)
	case dtype.BF16, dtype.F16:
		return decode(v.DType, ordered(v.Tensor, as[uint16](v.Mem), fresh), v.Work.Take(v.Count()))
	case dtype.Bool:
		return converted(v.Bools(), func(b bool) float32 {
			if b {
				return 1
			}
			return 0
		})
	}
	return converted(v.Ints(), func(i int64) float32 { return float32(i) })
}

// Ints are the values of an integer tensor in row-major order. They must not be written.
func (v View) Ints() []int64 {
	if v.DType == dtype.I32 {
		return converted(ordered(v.Tensor, as[int32](v.Mem), fresh), func(i int32) int64 { return int64(i) })
	}
	return ordered(v.Tensor, as[int64](v.Mem), fresh)
}

// Bools are the values of a boolean tensor in row-major order. They must not be written.
func (v View) Bools() []bool { return ordered(v.Tensor, as[bool](v.Mem), fresh) }

// SetReals stores values given in row-major order, rounded to the tensor's floating type.
func (v View) SetReals(values []float32) {
	if v.DType == dtype.F32 {
		scatter(v.Tensor, as[float32](v.Mem), values)
		return
	}
	mem := as[uint16](v.Mem)
	if v.Dense() {
		encode(v.DType, values, mem[v.Offset:])
		return
	}
	scatter(v.Tensor, mem, encode(v.DType, values, make([]uint16, len(values))))
}

// SetInts stores values of an integer tensor given in row-major order.
func (v View) SetInts(values []int64) {
	if v.DType == dtype.I32 {
		scatter(v.Tensor, as[int32](v.Mem), converted(values, func(i int64) int32 { return int32(i) }))
		return
	}
	scatter(v.Tensor, as[int64](v.Mem), values)
}

// SetBools stores values of a boolean tensor given in row-major order.
func (v View) SetBools(values []bool) { scatter(v.Tensor, as[bool](v.Mem), values) }

// RowMajor are the tensor's bytes with its elements in row-major order.
func (v View) RowMajor() []byte {
	size := v.DType.Size()
	if v.Dense() {
		return v.Mem[v.Offset*size : (v.Offset+v.Count())*size]
	}
	out := make([]byte, 0, v.Count()*size)
	v.Rows(func(at, step, n int64) {
		for range n {
			out = append(out, v.Mem[at*size:(at+1)*size]...)
			at += step
		}
	})
	return out
}

// Real reports whether the type is a floating one.
func Real(dt dtype.DType) bool { return dt == dtype.F32 || dt.Low() }

func converted[T, U any](values []T, f func(T) U) []U {
	out := make([]U, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}

func fresh[T any](n int64) []T { return make([]T, n) }

// ordered is a tensor's elements in row-major order: the allocation itself where it is so laid out, else a copy in
// memory that take gives.
func ordered[T any](t Tensor, mem []T, take func(n int64) []T) []T {
	n := t.Count()
	if t.Dense() {
		return mem[t.Offset : t.Offset+n]
	}
	out := take(n)[:0]
	t.Rows(func(at, step, n int64) {
		for range n {
			out = append(out, mem[at])
			at += step
		}
	})
	return out
}

// scatter writes elements given in row-major order.
func scatter[T any](t Tensor, mem, values []T) {
	if t.Dense() {
		copy(mem[t.Offset:t.Offset+int64(len(values))], values)
		return
	}
	k := 0
	t.Rows(func(at, step, n int64) {
		for range n {
			mem[at] = values[k]
			at += step
			k++
		}
	})
}
