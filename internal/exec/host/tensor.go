package host

import (
	"fmt"
	"math"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// buffer is one storage of the host engine: bytes on the device, counted as PyTorch would request them, and the
// values, which are held as float32 whatever the floating type. It is freed when its last holder lets go.
type buffer struct {
	engine  *engine
	ptr     gpu.DevicePtr
	refs    int
	version int // how often it was written after its own op made it
	name    string
	reals   []float32
	ints    []int64
	bools   []bool
}

// failure is the panic that carries an error out of a run.
type failure struct{ err error }

func fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// alloc takes the bytes of n elements on the device, with one holder.
func (e *engine) alloc(name string, dt model.DType, n int64) *buffer {
	ptr, err := e.device.Alloc(unit.Bytes(n * dt.Size()))
	if err != nil {
		panic(failure{e.outOfMemory(name, err)})
	}
	e.note(name)
	b := &buffer{engine: e, ptr: ptr, refs: 1, name: name}
	switch dt {
	case model.F32, model.BF16, model.F16:
		b.reals = make([]float32, n)
	case model.Bool:
		b.bools = make([]bool, n)
	default:
		b.ints = make([]int64, n)
	}
	return b
}

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
	if err := b.engine.device.Free(b.ptr); err != nil {
		panic(failure{err})
	}
	b.reals, b.ints, b.bools = nil, nil, nil
}

func (b *buffer) alive() {
	if b.refs <= 0 {
		fail("%s is used after it was freed", b.name)
	}
}

// tensor is a view on a buffer.
type tensor struct {
	buf           *buffer
	shape, stride model.Dims
	offset        int64
	dtype         model.DType
}

func (t tensor) count() int64 { return t.shape.Count() }

func (t tensor) dense() bool { return model.IsContiguous(t.shape, t.stride) }

// broadcast is the tensor seen with a larger shape.
func (t tensor) broadcast(to model.Dims) tensor {
	if t.shape == to {
		return t
	}
	st := model.Dims{N: to.N}
	off := int(to.N - t.shape.N)
	for i := range t.shape.D[:t.shape.N] {
		if t.shape.D[i] == to.D[off+i] {
			st.D[off+i] = t.stride.D[i]
		}
	}
	t.shape, t.stride = to, st
	return t
}

// part is index i of the first dimension.
func (t tensor) part(i int64) tensor {
	t.offset += i * t.stride.D[0]
	t.shape, t.stride = t.shape.Remove(0), t.stride.Remove(0)
	return t
}

// swapped is the tensor with two dimensions exchanged.
func (t tensor) swapped(i, j int) tensor {
	t.shape, t.stride = t.shape.Swap(i, j), t.stride.Swap(i, j)
	return t
}

// narrow is n indices of dimension i from start on.
func (t tensor) narrow(i int, start, n int64) tensor {
	t.offset += start * t.stride.D[i]
	t.shape = t.shape.With(i, n)
	return t
}

// reals are the values in row-major order. They are not to be written.
func (t tensor) reals() []float32 {
	t.buf.alive()
	if t.buf.reals == nil { // a boolean or an integer operand
		return t.converted()
	}
	return inOrder(t, t.buf.reals)
}

func (t tensor) converted() []float32 {
	out := make([]float32, t.count())
	if t.buf.bools != nil {
		for i, v := range inOrder(t, t.buf.bools) {
			if v {
				out[i] = 1
			}
		}
		return out
	}
	for i, v := range inOrder(t, t.buf.ints) {
		out[i] = float32(v)
	}
	return out
}

func (t tensor) ints() []int64 {
	t.buf.alive()
	return inOrder(t, t.buf.ints)
}

func (t tensor) bools() []bool {
	t.buf.alive()
	return inOrder(t, t.buf.bools)
}

// setReals stores values given in row-major order, rounded to the tensor's type.
func (t tensor) setReals(v []float32) {
	t.buf.alive()
	dt := t.buf.engine.storeType(t.dtype)
	if dt == model.F32 {
		scatter(t, t.buf.reals, v)
		return
	}
	r := make([]float32, len(v))
	for i, x := range v {
		r[i] = roundTo(dt, x)
	}
	scatter(t, t.buf.reals, r)
}

func (t tensor) setInts(v []int64) { scatter(t, t.buf.ints, v) }

func (t tensor) setBools(v []bool) { scatter(t, t.buf.bools, v) }

// copyFrom stores another tensor's values, converted to this one's type.
func (t tensor) copyFrom(src tensor) {
	switch {
	case t.buf.reals != nil:
		t.setReals(src.reals())
	case t.buf.ints != nil && src.buf.ints != nil:
		t.setInts(src.ints())
	case t.buf.ints != nil:
		v := make([]int64, src.count())
		for i, x := range src.reals() {
			v[i] = int64(x)
		}
		t.setInts(v)
	default:
		t.setBools(src.bools())
	}
}

// inOrder is a tensor's elements in row-major order: the storage itself where it is so laid out, else a copy.
func inOrder[T any](t tensor, storage []T) []T {
	n := t.count()
	if t.dense() {
		return storage[t.offset : t.offset+n]
	}
	out := make([]T, 0, n)
	t.rows(func(at, step, n int64) {
		for range n {
			out = append(out, storage[at])
			at += step
		}
	})
	return out
}

// scatter writes elements given in row-major order.
func scatter[T any](t tensor, storage, v []T) {
	if t.dense() {
		copy(storage[t.offset:t.offset+int64(len(v))], v)
		return
	}
	k := 0
	t.rows(func(at, step, n int64) {
		for range n {
			storage[at] = v[k]
			at += step
			k++
		}
	})
}

// rows calls yield for every row of the last dimension, in row-major order: where it starts, its step and its length.
func (t tensor) rows(yield func(at, step, n int64)) {
	if t.shape.N == 0 {
		yield(t.offset, 1, 1)
		return
	}
	if t.count() == 0 {
		return
	}
	last := int(t.shape.N) - 1
	var at [model.MaxRank]int64
	pos := t.offset
	for {
		yield(pos, t.stride.D[last], t.shape.D[last])
		i := last - 1
		for ; i >= 0; i-- {
			at[i]++
			pos += t.stride.D[i]
			if at[i] < t.shape.D[i] {
				break
			}
			pos -= at[i] * t.stride.D[i]
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// roundTo is x rounded to a floating type, to nearest, ties to even.
func roundTo(dt model.DType, x float32) float32 {
	switch dt {
	case model.BF16:
		return toBF16(x)
	case model.F16:
		return toF16(x)
	}
	return x
}

func toBF16(x float32) float32 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 { // NaN stays one
		return x
	}
	b += 0x7fff + b>>16&1
	return math.Float32frombits(b &^ 0xffff)
}

// toF16 keeps 10 bits of the significand; below 2⁻¹⁴ the spacing is 2⁻²⁴, above 65,504 + 16 values become infinite.
func toF16(x float32) float32 {
	a := math.Abs(float64(x))
	switch {
	case a >= 65520:
		return float32(math.Copysign(math.Inf(1), float64(x)))
	case a < 1.0/(1<<14):
		return float32(math.RoundToEven(float64(x)*(1<<24)) / (1 << 24))
	}
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return x
	}
	b += 0xfff + b>>13&1
	return math.Float32frombits(b &^ 0x1fff)
}
