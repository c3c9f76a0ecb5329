package graph

// How to read the op table (optable_*.go, one family of ops a file). A row says of one op, forward and backward, all that
// does not depend on its shapes:
//
//	OpMul: {
//		Aten: "aten.mul", Save: []Save{{I0, in1}, {I1, in0}},
//		Back: []Call{{Elementwise, "aten.mul", D0, [3]Slot{G0, I1}}, {Elementwise, "aten.mul", D1, [3]Slot{G0, I0}}},
//	}
//
// Tensors are named by slots, numbered from 0: I0 is the first input, O0 the first output, G0 the gradient that arrives for
// O0, D0 the gradient that leaves for I0, T0 a temporary of the backward formula. in0 and in1 are bits for "input 0 (1)
// requires grad".
//
// Save: autograd keeps I0 if input 1 requires grad, and I1 if input 0 does. {O0, in0} keeps the output (softmax);
// {I0, in0 | in1} keeps the input if either requires grad.
//
// Back: one ATen call after the other, {How, name, result, arguments}. How is what its result looks like (slot.go lists
// them): Elementwise makes a new tensor over G0 and I1, Full a contiguous one like its first argument, Pass hands the
// gradient on without a kernel. A call whose result is Dn runs only if input n requires grad, with the calls right before
// it that fill its temporaries; these die when Dn is made.
//
// Shapes, dtypes and layouts of outputs are the Builder's (internal/model/build/ops.go has a function of PyTorch's name for each op).

// Kind is the row of an op in the op table.
type Kind uint8

// Row is what is known about an op: what autograd keeps of it, what its backward allocates, and how much work it is.
// Sources: tools/autograd/derivatives.yaml and FunctionsManual.cpp of PyTorch 2.14, measured with tools/measure.py.
type Row struct {
	Aten string // the name PyTorch's dispatcher and profiler print
	Save []Save
	Back []Call
	// Together are the inputs, as bits, whose gradients one kernel makes together: if one is needed, all are made.
	Together uint16
	Work     Work
	// FLOPs of forward, a multiply-add counted as two; nil for ops whose time is the bytes they move.
	FLOPs func(*Graph, *Op) int64
	// Temps are outputs that exist inside the op only: nothing reads or keeps them, and they are freed when the op is done.
	Temps []Slot
	// Label names the op in plans, whatever weight it reads; empty: see Graph.Labels.
	Label string
	// Transparent: the op passes on what its input is, as a view does: a cast of a weight stands for the weight.
	Transparent bool
	// CPU is what the CPU's dispatcher runs in place of the op (internal/model/build/cpu.go); nil: the op itself.
	CPU []Kind
}

const (
	in0 = 1 << iota
	in1
	in2
	in3
)

// The ops of a training step.
const (
	// views
	OpView Kind = iota
	OpUnsafeView
	OpTranspose
	OpUnsqueeze
	OpSqueeze
	OpExpand
	OpSlice
	OpSelect
	OpSplit
	OpAlias
	// copies
	OpClone
	OpToCopy
	OpCat
	OpStack
	OpPad
	// elementwise
	OpAdd
	OpAddScalar
	OpSub
	OpMul
	OpMulScalar
	OpDivInPlace
	OpDivScalar
	OpNeg
	OpPowScalar
	OpRsqrt
	OpTanh
	OpSigmoid
	OpGelu
	OpBloomGelu
	OpSilu
	OpRelu
	OpClamp
	OpClampBetween
	OpClampMax
	OpMaskedFill
	OpDropout
	// reductions and norms
	OpMean
	OpSum
	OpSumOver
	OpLayerNorm
	OpRMSNorm
	OpSoftmax
	OpLogSoftmax
	OpNLLLoss
	OpMSELoss
	// products
	OpMM
	OpAddMM
	OpBMM
	OpBAddBMM
	OpBMMAdd
	OpConv2D
	OpGroupedMM
	OpMatmul4Bit
	OpMatmul4BitDouble
	OpFlashAttention
	OpEfficientAttention
	OpCPUAttention
	// look-ups
	OpEmbedding
	OpIndex
	OpTopK
	OpMax
	// without gradient
	OpPlain
	OpArgument
	Kinds
)

// Table is the op table, one row an op.
var Table = table(
	viewRows, copyRows, elementwiseRows, activationRows, normRows, softmaxRows, lossRows, matmulRows, attentionRows, lookupRows, plainRows,
)

// rows are the rows of a family of ops.
type rows map[Kind]Row

func table(families ...rows) (all [Kinds]Row) {
	for _, f := range families {
		for k, r := range f {
			all[k] = r
		}
	}
	return all
}
