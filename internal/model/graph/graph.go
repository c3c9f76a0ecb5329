// Package graph holds one forward pass with loss as PyTorch would run it: blocks of ops over tensors over storages, and
// the op table (optable*.go), in which everything known about an op is one row: what autograd saves, what its backward
// allocates, how its FLOPs are counted. It knows no model class.
package graph

import (
	"cmp"
	"slices"

	"ckptplan/internal/model/dtype"
)

// The identities of a graph's parts are indices into its slices.
type (
	TensorID  int32
	StorageID int32
	OpID      int32
	ParamID   int32
)

// None marks an absent identity.
const None = -1

// Lifetimes of a Python local that outlives the op list (see Storage.Drop).
const (
	DropAfterForward  OpID = 1<<30 + iota // with the end of forward: autocast's cached weight casts
	DropAfterBackward                     // with the end of backward: the model's output while the caller holds it
)

// Tensor is a view on a storage, as autograd sees it.
type Tensor struct {
	*Layout        // shared by tensors that are laid out alike
	Offset   int64 // of its first element in the storage, in elements
	Storage  StorageID
	Producer OpID    // the op whose node is its grad_fn, or None
	Param    ParamID // the parameter it is, or None
	Output   int8    // which output of Producer it is
	DType    dtype.DType
	Grad     bool // requires_grad
	View     bool // shares its storage with the tensor it was made from
}

// Storage is a run of bytes on the device.
type Storage struct {
	Bytes int64
	// Born is the op that allocates it; None for parameters, buffers and inputs, which live outside the step.
	Born OpID
	// Drop is the op after which no Python local holds it any more.
	Drop OpID
	Role Role
	// Positional: layers take it as a positional argument, as they do the residual stream, not by keyword.
	Positional bool
	// Name says what it is: a parameter's name, or the name of the op that made it.
	Name string
}

// Role tells a breakdown what a storage is.
type Role uint8

// The roles of storages.
const (
	Activation Role = iota // an op's output
	Parameter
	Buffer     // not trained, such as rotary's inverse frequencies
	Input      // token ids, labels, pixels
	WeightCast // autocast's 16-bit copy of a weight
	Logits     // logits, their copies and log-probabilities
	Residual   // a layer's output: the residual stream
)

// Param is one parameter tensor.
type Param struct {
	Name    string
	Tensor  TensorID
	Count   int64 // elements
	Bytes   int64
	Trained bool
}

// Op is one ATen call of the forward pass, in execution order. Its index is its autograd sequence number.
type Op struct {
	Kind Kind
	Attr Attr
	// Scalar is the op's one real argument: a factor, an addend, ε of a norm, an exponent, the scale of attention scores.
	Scalar float64
	// Drop is the probability with which dropout, or an attention kernel, drops an element.
	Drop  float64
	In    int32 // first of its inputs in Graph.args
	Out   int32 // first of its outputs in Graph.args
	Block int32 // index into Graph.Blocks
	Nin   int8
	Nout  int8
	// Needs has bit i set if input i requires grad; a node exists if it is not 0.
	Needs uint16
}

// Attr holds an op's plain arguments: dimensions, a start, a count. Their meaning is the op row's.
type Attr struct{ A, B, C int64 }

// Block is one link of the chain: "embedding", "layers.0" …, "head".
type Block struct {
	Label string
	Layer int // layer number, or None
	First OpID
	End   OpID // one past the last op
}

// Span is a named part of a layer, a range of ops at module boundaries, that one checkpoint can cover.
type Span struct {
	Layer int
	Name  string // layer, attn, core, mlp, act, norm1, norm2
	First OpID
	End   OpID
}

// Graph is one forward pass with loss: blocks of ops over tensors over storages.
type Graph struct {
	Step     Step
	Tensors  []Tensor
	Storages []Storage
	Ops      []Op
	Params   []Param
	Blocks   []Block
	Spans    []Span
	// Fixed are spans outside the layers that the model's own code runs under a checkpoint, whatever the plan.
	Fixed []Span
	// RandomState is what each checkpoint keeps of the generator that its region's dropout draws from, in bytes. It is 0
	// where that state is in another memory than the step's.
	RandomState int64
	// Loss is the scalar that backward starts from.
	Loss TensorID
	// Layers is the number of layers that strategies count.
	Layers int
	// Chain is false where a tensor jumps over layers (an encoder's output read by every decoder layer).
	Chain bool
	// Assumptions say, in words, which kernels and class behaviour the graph rests on.
	Assumptions []string
	Args        []TensorID
}

// Step is what a training step needs to know of the model and its trainer beside the ops.
type Step struct {
	// Origin is what the graph was built from, for callers that build a variant of it (see SpecOf).
	Origin any
	// Class and Attention are named in errors.
	Class, Attention string
	Hidden           int64 // width of the residual stream
	Optimizer        string
	MicroBatches     int // a step, at least 1
	// CPU is true for the ops of PyTorch on the CPU; Checkpoint is what plans on this graph checkpoint (build's Options).
	CPU        bool
	Checkpoint string
	// Registered are the parameters in the order in which the class registers its modules, which is the order of
	// model.parameters() and of an optimizer that takes one parameter at a time. Graph.Params has them in the order in which
	// forward meets them.
	Registered []ParamID
	// Fills say what the buffers and inputs hold; a storage that is not in it holds normally distributed numbers.
	Fills map[StorageID]Fill
}

// Fill is the content of a buffer or an input, by the first of its fields that is set.
type Fill struct {
	Base     float64 // element i of n is Base^(−i/n): rotary's inverse frequencies
	Constant float64 // every element
	Count    bool    // element i is i
	From     int64   // drawn from the whole numbers From … Below−1
	Below    int64
}

// Inputs are the op's input tensors.
func (g *Graph) Inputs(op *Op) []TensorID { return g.Args[op.In : op.In+int32(op.Nin)] }

// Outputs are the op's output tensors.
func (g *Graph) Outputs(op *Op) []TensorID { return g.Args[op.Out : op.Out+int32(op.Nout)] }

// LayerBlock is the number of the block that is a layer.
func (g *Graph) LayerBlock(layer int) int {
	b := layer // at the least
	for g.Blocks[b].Layer != layer {
		b++
	}
	return b
}

// Between is the label of a block between two layers that is no layer, such as the embedding of a decoder; empty if there is
// none.
func (g *Graph) Between(first, last int) string {
	for _, b := range g.Blocks[g.LayerBlock(first):g.LayerBlock(last)] {
		if b.Layer < 0 {
			return b.Label
		}
	}
	return ""
}

// LayerOps is the range of ops of a layer and, behind another layer, of the block in between, which runs the same way under
// every plan: the embedding of a decoder.
func (g *Graph) LayerOps(layer int) (first, end OpID) {
	b := g.LayerBlock(layer)
	first, end = g.Blocks[b].First, g.Blocks[b].End
	if layer > 0 {
		first = g.Blocks[g.LayerBlock(layer-1)].End
	}
	return first, end
}

// Parts are the ranges of ops that a layer's part of that name covers: two for the attention of a decoder layer that
// reads an encoder too.
func (g *Graph) Parts(layer int, name string) (parts []Span) {
	for _, s := range g.spansFrom(layer) {
		if s.Layer != layer {
			break
		}
		if s.Name == name {
			parts = append(parts, s)
		}
	}
	return parts
}

// spansFrom are the spans of a layer and those behind it: a builder adds them layer by layer.
func (g *Graph) spansFrom(layer int) []Span {
	i, _ := slices.BinarySearchFunc(g.Spans, layer, func(s Span, layer int) int { return cmp.Compare(s.Layer, layer) })
	return g.Spans[i:]
}

// Span finds the first range of a part of a layer; false if the layer has none of that name.
func (g *Graph) Span(layer int, name string) (Span, bool) {
	for _, s := range g.spansFrom(layer) {
		if s.Layer != layer {
			break
		}
		if s.Name == name {
			return s, true
		}
	}
	return Span{}, false
}

// Storage of a tensor.
func (g *Graph) StorageOf(t TensorID) *Storage { return &g.Storages[g.Tensors[t].Storage] }

// Bytes is the tensor's own size, as a copy of it would need: elements × element size.
func (g *Graph) Bytes(t TensorID) int64 {
	x := &g.Tensors[t]
	return x.Shape.Count() * x.DType.Size()
}
