package graph

// MaxRank is the largest number of dimensions of any tensor in a modelled step.
const MaxRank = 6

// Dims holds sizes or strides (in elements) of up to MaxRank dimensions.
type Dims struct {
	N int8
	D [MaxRank]int64
}

// Shape makes Dims of its arguments.
func Shape(d ...int64) Dims {
	var s Dims
	s.N = int8(len(d))
	copy(s.D[:], d)
	return s
}

// At is the size of dimension i; negative i counts from the end.
func (s Dims) At(i int) int64 {
	if i < 0 {
		i += int(s.N)
	}
	return s.D[i]
}

// With is s with dimension i (negative: from the end) set to v.
func (s Dims) With(i int, v int64) Dims {
	if i < 0 {
		i += int(s.N)
	}
	s.D[i] = v
	return s
}

// Swap is s with dimensions i and j exchanged.
func (s Dims) Swap(i, j int) Dims {
	i, j = s.Axis(i), s.Axis(j)
	s.D[i], s.D[j] = s.D[j], s.D[i]
	return s
}

// Append is s with one more dimension.
func (s Dims) Append(v int64) Dims {
	s.D[s.N] = v
	s.N++
	return s
}

// Insert is s with a dimension v before position i.
func (s Dims) Insert(i int, v int64) Dims {
	copy(s.D[i+1:], s.D[i:s.N])
	s.D[i] = v
	s.N++
	return s
}

// Remove is s without dimension i.
func (s Dims) Remove(i int) Dims {
	i = s.Axis(i)
	copy(s.D[i:], s.D[i+1:s.N])
	s.N--
	s.D[s.N] = 0
	return s
}

// Axis is the number of a dimension; negative ones count from the end.
func (s Dims) Axis(i int) int {
	if i < 0 {
		i += int(s.N)
	}
	return i
}

// Count is the number of elements.
func (s Dims) Count() int64 {
	n := int64(1)
	for _, d := range s.D[:s.N] {
		n *= d
	}
	return n
}

// Contiguous is the row-major strides of a shape.
func (s Dims) Contiguous() Dims {
	st := Dims{N: s.N}
	n := int64(1)
	for i := int(s.N) - 1; i >= 0; i-- {
		st.D[i] = n
		if s.D[i] > 0 {
			n *= s.D[i]
		}
	}
	return st
}

// IsContiguous reports whether strides st walk shape s in row-major order; dimensions of size 1 do not matter.
func IsContiguous(s, st Dims) bool {
	n := int64(1)
	for i := int(s.N) - 1; i >= 0; i-- {
		if s.D[i] == 1 {
			continue
		}
		if st.D[i] != n {
			return false
		}
		n *= s.D[i]
	}
	return true
}

// IsDense reports whether the elements are without overlap and gap, in any order of dimensions.
func IsDense(s, st Dims) bool {
	var used [MaxRank]bool
	n := int64(1)
	for range s.D[:s.N] {
		found := false
		for i := range s.D[:s.N] {
			if !used[i] && s.D[i] != 1 && st.D[i] == n {
				used[i], found = true, true
				n *= s.D[i]
				break
			}
		}
		if !found {
			break
		}
	}
	for i := range s.D[:s.N] {
		if !used[i] && s.D[i] != 1 {
			return false
		}
	}
	return true
}

// ViewStrides gives the strides with which a tensor of shape s and strides st can be seen as shape to without a
// copy, and false if a copy is needed. It is computeStride_impl of ATen/TensorUtils.cpp.
func ViewStrides(s, st, to Dims) (Dims, bool) {
	out := Dims{N: to.N}
	if s.Count() == 0 {
		return to.Contiguous(), true
	}
	if s.N == 0 {
		for i := range to.D[:to.N] {
			out.D[i] = 1
		}
		return out, true
	}
	v := int(to.N) - 1
	chunk := st.D[s.N-1]
	tn, vn := int64(1), int64(1)
	for t := int(s.N) - 1; t >= 0; t-- {
		tn *= s.D[t]
		if t == 0 || (s.D[t-1] != 1 && st.D[t-1] != tn*chunk) {
			for v >= 0 && (vn < tn || to.D[v] == 1) {
				out.D[v] = vn * chunk
				vn *= to.D[v]
				v--
			}
			if vn != tn {
				return Dims{}, false
			}
			if t > 0 {
				chunk = st.D[t-1]
				tn, vn = 1, 1
			}
		}
	}
	return out, v == -1
}

// Broadcast is the common shape of two operands.
func Broadcast(a, b Dims) Dims {
	if a.N < b.N {
		a, b = b, a
	}
	off := int(a.N - b.N)
	for i := range b.D[:b.N] {
		if b.D[i] != 1 {
			a.D[off+i] = b.D[i]
		}
	}
	return a
}

// Layout is the shape and the strides, in elements, of a tensor.
type Layout struct{ Shape, Stride Dims }

// Layouts gives tensors that are laid out alike one Layout: a graph of 100 layers has some dozens of them. It is a
// cache of the last one by hash, so that equal layouts are nearly always, but not surely, the same pointer.
type Layouts struct{ last [512]*Layout }

// Of is the layout of that shape and those strides.
func (l *Layouts) Of(shape, stride Dims) *Layout {
	h := uint64(shape.N)
	for i := range shape.N {
		h = (h ^ uint64(shape.D[i])) * 0x9e3779b97f4a7c15
		h = (h ^ h>>29 ^ uint64(stride.D[i])) * 0xbf58476d1ce4e5b9
	}
	at := &l.last[h>>(64-9)]
	if *at == nil || (*at).Shape != shape || (*at).Stride != stride {
		*at = &Layout{shape, stride}
	}
	return *at
}

// ElementwiseStrides gives the strides of the new output of an elementwise op over operands, whose common shape is
// out. It is TensorIteratorBase::reorder_dimensions: dimensions keep the order of the operands' strides, the first
// operand that can tell decides.
func ElementwiseStrides(out Dims, operands ...*Layout) Dims {
	n := int(out.N)
	if n <= 1 {
		return out.Contiguous()
	}
	same := operands[0].Shape == out
	for _, o := range operands[1:] {
		same = same && (o == operands[0] || *o == *operands[0])
	}
	if same && IsDense(out, operands[0].Stride) {
		return operands[0].Stride
	}
	var st [4][MaxRank]int64
	for k, o := range operands {
		off := n - int(o.Shape.N)
		for i := range o.Shape.D[:o.Shape.N] {
			if o.Shape.D[i] != 1 || out.D[off+i] == 1 {
				st[k][off+i] = o.Stride.D[i]
			}
		}
	}
	var perm [MaxRank]int
	for i := range n {
		perm[i] = n - 1 - i
	}
	after := func(d0, d1 int) int {
		for k := range operands {
			s0, s1 := st[k][d0], st[k][d1]
			switch {
			case s0 == 0 || s1 == 0:
			case s0 < s1:
				return -1
			case s0 > s1:
				return 1
			case out.D[d0] > out.D[d1]:
				return 1
			}
		}
		return 0
	}
	for i := 1; i < n; i++ {
		d1 := i
		for d0 := i - 1; d0 >= 0; d0-- {
			c := after(perm[d0], perm[d1])
			if c > 0 {
				perm[d0], perm[d1] = perm[d1], perm[d0]
				d1 = d0
			} else if c < 0 {
				break
			}
		}
	}
	res := Dims{N: out.N}
	step := int64(1)
	for _, d := range perm[:n] {
		res.D[d] = step
		step *= out.D[d]
	}
	return res
}
