package interpreter

import (
	"fmt"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/unit"
)

// buffer is one storage on the device. It is freed when its last holder releases it.
type buffer struct {
	engine  *engine
	ptr     gpu.DevicePtr
	dtype   dtype.DType
	count   int64 // elements
	refs    int
	version int // how often it was written after its own op made it
	name    string
}

// failure is the panic that carries an error out of a run.
type failure struct{ err error }

func fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// must ends the run if the device returned an error.
func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// alloc takes n elements on the device, with one holder. Their content is undefined.
func (e *engine) alloc(name string, dt dtype.DType, n int64) *buffer {
	b := &buffer{engine: e, dtype: dt, count: n, refs: 1, name: name}
	ptr, err := e.device.Alloc(b.bytes())
	if err != nil {
		panic(failure{e.outOfMemory(name, err)})
	}
	b.ptr = ptr
	e.used += b.bytes()
	e.note(name)
	return b
}

// zeros is an allocation of n zeros.
func (e *engine) zeros(name string, dt dtype.DType, n int64) *buffer {
	b := e.alloc(name, dt, n)
	e.fill(b.whole(), 0)
	return b
}

func (b *buffer) bytes() unit.Bytes { return unit.Bytes(b.count * b.dtype.Size()) }

func (b *buffer) hold() *buffer {
	b.alive()
	b.refs++
	return b
}

func (b *buffer) release() {
	b.alive()
	if b.refs--; b.refs > 0 {
		return
	}
	must(b.engine.device.Free(b.ptr))
	b.engine.used -= b.bytes()
}

func (b *buffer) alive() {
	if b.refs <= 0 {
		fail("%s is used after it was freed", b.name)
	}
}

// whole is the buffer as a vector.
func (b *buffer) whole() tensor {
	s := graph.Shape(b.count)
	return b.view(s, s.Contiguous(), 0)
}

// view is a tensor on the buffer.
func (b *buffer) view(shape, stride graph.Dims, offset int64) tensor {
	return tensor{gpu.Tensor{Ptr: b.ptr, Shape: shape, Stride: stride, Offset: offset, DType: b.dtype}, b}
}

// tensor is a view on a buffer.
type tensor struct {
	gpu.Tensor
	buf *buffer
}

// over is a graph's tensor over a buffer.
func over(x *graph.Tensor, b *buffer) tensor { return b.view(x.Shape, x.Stride, x.Offset) }

// at is the tensor as a kernel's argument.
func (t tensor) at() gpu.Tensor {
	t.buf.alive()
	return t.Tensor
}

// launch runs a kernel.
func (e *engine) launch(k gpu.Kernel, a *gpu.Args) { must(e.device.Launch(k, a)) }

// apply runs a kernel that has tensors for arguments and one result.
func (e *engine) apply(k gpu.Kernel, out gpu.Tensor, in ...gpu.Tensor) {
	e.launch(k, &gpu.Args{In: in, Out: []gpu.Tensor{out}})
}

// fill stores a number everywhere.
func (e *engine) fill(t tensor, x float64) {
	e.launch(gpu.Fill, &gpu.Args{Out: []gpu.Tensor{t.at()}, Scalar: x})
}

// read copies the memory that the tensor touches into mem, which grows if it is too small.
func (t tensor) read(mem []byte) gpu.View {
	from := t.at()
	first, end := from.Span()
	size := t.DType.Size()
	mem = slices.Grow(mem[:0], int((end-first)*size))[:(end-first)*size]
	must(t.buf.engine.device.CopyOut(mem, t.buf.ptr, unit.Bytes(first*size)))
	from.Offset -= first
	return gpu.View{Tensor: from, Mem: mem}
}

// rowMajor is a copy of the tensor's bytes in this process, its elements in row-major order.
func (t tensor) rowMajor() []byte { return t.read(nil).RowMajor() }

// reals is a copy of the tensor's values in this process, in row-major order.
func (t tensor) reals() []float32 {
	return t.read(nil).Reals()
}

// glance is reals, valid until the next glance.
func (t tensor) glance() []float32 {
	e := t.buf.engine
	v := t.read(e.mem)
	e.work.Reset()
	e.mem, v.Work = v.Mem, &e.work
	return v.Reals()
}

// set stores values from this process over the whole buffer.
func (b *buffer) set(values []float32) {
	v := gpu.View{Tensor: b.whole().Tensor, Mem: make([]byte, b.bytes())}
	v.SetReals(values)
	must(b.engine.device.CopyIn(b.ptr, 0, v.Mem))
}

func (b *buffer) setInts(values []int64) {
	v := gpu.View{Tensor: b.whole().Tensor, Mem: make([]byte, b.bytes())}
	v.SetInts(values)
	must(b.engine.device.CopyIn(b.ptr, 0, v.Mem))
}
