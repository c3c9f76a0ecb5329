package graph

// Slot names a tensor in an op row: a gradient of an output (G), a gradient of an input (D), an input (I), an output
// (O), or a temporary of the backward formula (T).
type Slot int8

// The slots of an op row; NoSlot ends a list.
const (
	NoSlot Slot = iota
	G0
	D0
	D1
	D2
	D3
	I0
	I1
	I2
	I3
	O0
	O1
	O2
	O3
	O4
	T0
	T1
	T2
	T3
	T4
)

// Input is the input a D slot is the gradient of, or −1.
func (s Slot) Input() int {
	if s >= D0 && s <= D3 {
		return int(s - D0)
	}
	return -1
}

// Temp is the number of a T slot, or −1.
func (s Slot) Temp() int {
	if s >= T0 {
		return int(s - T0)
	}
	return -1
}

// Save is one tensor that autograd keeps from forward for backward: Slot, if any input in If requires grad.
type Save struct {
	Slot Slot
	If   uint16
}

// How a backward step makes its result from its arguments.
type How uint8

// The instruction set of backward formulas.
const (
	Pass        How = iota // the incoming gradient itself: no kernel, no bytes
	Release                // free the temporary that Out names
	Scalar                 // a new tensor of one number, of the first argument's dtype
	Compare                // a new bool tensor over the first argument and the second
	Elementwise            // a new tensor over the arguments; layout by TensorIterator; dtype promoted
	Full                   // a new contiguous tensor like the first argument, dtype of the second if given
	Like                   // a new tensor like the first argument, its strides kept (empty_like)
	Cast                   // a new tensor like the first argument with the dtype of the second; itself if equal
	Reshape                // the gradient reshaped to the second argument: a view, or a copy where strides forbid
	Swap                   // the gradient with the op's two dimensions exchanged: a view
	Fold                   // the gradient without the dimension that the op added: a view
	Unfold                 // the gradient with the dimension that the op removed: a view
	SumTo                  // the gradient summed to the shape of the second argument; itself if equal
	Spread                 // the gradient expanded to the shape of the second argument: a view
	MatLeft                // gradient of a in a·b, from grad and b
	MatRight               // gradient of b in a·b, from grad and a
	Slices                 // views of the gradient, one an input, along the op's dimension (cat)
	Selects                // views of the gradient, one an input, without the op's dimension (stack)
	Joined                 // a new tensor of the outputs' gradients side by side; zeros stand in for absent ones (split)
)

// Call is one ATen call of a backward formula. Calls that fill temporaries run for the next D slot; temporaries die
// when that gradient is made (the end of the C++ statement).
type Call struct {
	How  How
	Aten string
	Out  Slot
	Args [3]Slot
}

// Work is what an op's time depends on.
type Work uint8

// The kinds of work.
const (
	Moves     Work = iota // reads its inputs and writes its outputs; its FLOPs do not matter
	Free                  // a view: no kernel
	MatMul                // a matrix product
	Attention             // a fused attention kernel, whose backward makes the scores again
	Gather                // reads what it writes, not the whole table
)
