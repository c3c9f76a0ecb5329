package host

import (
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// matmul is a·b for matrices, or for batches of them, as row-major values. Products are summed in float32 in an order
// that the sizes alone decide.
func matmul(a, b view) []float32 {
	if a.Shape.N == 3 {
		m, n := a.Shape.D[1], b.Shape.D[2]
		out := a.Work.Take(a.Shape.D[0] * m * n)
		for i := range a.Shape.D[0] {
			product(a.part(i), b.part(i), out[i*m*n:(i+1)*m*n])
		}
		return out
	}
	out := a.Work.Take(a.Shape.D[0] * b.Shape.D[1])
	product(a, b, out)
	return out
}

// product hands both operands to BLAS by rows, whatever their layout: the order of the additions must not depend on
// whether a tensor was saved as it was or came back from the host contiguous.
func product(a, b view, out []float32) {
	m, k, n := int(a.Shape.D[0]), int(a.Shape.D[1]), int(b.Shape.D[1])
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
		blas32.General{Rows: m, Cols: k, Stride: k, Data: a.Reals()}, blas32.General{Rows: k, Cols: n, Stride: n, Data: b.Reals()},
		0, blas32.General{Rows: m, Cols: n, Stride: n, Data: out})
}

// addRow adds a row to every row of x, in place.
func addRow(x, row []float32) []float32 {
	for i := range x {
		x[i] += row[i%len(row)]
	}
	return x
}

// scratch is a matrix of a kernel's own, which the device does not count: a library's workspace.
func scratch(values []float32, rows, cols int64) view {
	s := graph.Shape(rows, cols)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	return view{gpu.View{Tensor: gpu.Tensor{Shape: s, Stride: s.Contiguous(), DType: dtype.F32}, Mem: mem}}
}

// asMatrix is a contiguous tensor as rows × cols.
func (v view) asMatrix(rows, cols int64) view { return scratch(v.Reals(), rows, cols) }
