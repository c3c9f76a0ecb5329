// Package build writes graphs: a Builder has PyTorch's functions (linear, softmax, scaled dot product attention, rotary
// embedding, loss) as methods, which emit the ops that a CUDA device, or the CPU, dispatches for them, with shapes, types
// and the lifetimes of Python's locals.
package build

import (
	"ckptplan/internal/hugepage"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// Builder writes a graph op by op, as the model's Python code would run it.
//
// Lifetimes of Python locals follow one rule: a tensor is freed after the last op that reads it, unless keep says
// that a local still holds it (a caller's variable, an argument of a running call).
type Builder struct {
	G         *graph.Graph
	Spec      *spec.Spec
	Constants Constants
	Options
	Block    int32
	Dtype    dtype.DType // of weights and, without autocast, of activations
	castType dtype.DType // what autocast casts to
	Amp      bool        // inside an autocast region
	casts    map[graph.TensorID]graph.TensorID
	// Weights are the attention weights that eager attention returned in the current layer, or None.
	Weights graph.TensorID
	// LinearLayer is what a linear layer runs: F.linear, unless the class writes its own.
	LinearLayer func(x, w, bias graph.TensorID) graph.TensorID
	Layouts     graph.Layouts
}

// NewBuilder starts the graph of a spec.
func NewBuilder(s *spec.Spec, c Constants, o Options) *Builder {
	low, amp := s.AutocastType()
	n := s.L*100 + 200
	b := &Builder{
		G: &graph.Graph{
			Chain: true, Loss: graph.None,
			Step: graph.Step{
				Origin: s, Class: s.Arch, Attention: s.Attention, Hidden: int64(s.H),
				Optimizer: s.Train.Optimizer, MicroBatches: max(1, s.Train.GradAccum), CPU: o.CPU, Checkpoint: o.Checkpoint, Fills: map[graph.StorageID]graph.Fill{},
			},
			Tensors: hugepage.Make[graph.Tensor](n * 3 / 2), Storages: hugepage.Make[graph.Storage](n),
			Ops: hugepage.Make[graph.Op](n), Args: hugepage.Make[graph.TensorID](4 * n),
		},
		Spec: s, Constants: c.orDefaults(), Options: o, Dtype: s.WeightType(), castType: low, Amp: amp, casts: map[graph.TensorID]graph.TensorID{}, Weights: graph.None,
	}
	b.LinearLayer = b.Linear
	return b
}

// Begin starts a block; its ops are those emitted until the next one.
func (b *Builder) Begin(label string, layer int) {
	b.EndBlock()
	b.G.Blocks = append(b.G.Blocks, graph.Block{Label: label, Layer: layer, First: b.Next()})
	b.Block = int32(len(b.G.Blocks) - 1)
	b.G.Layers = max(b.G.Layers, layer+1)
}

// EndBlock ends the block that the ops so far belong to.
func (b *Builder) EndBlock() {
	if n := len(b.G.Blocks); n > 0 {
		b.G.Blocks[n-1].End = b.Next()
	}
}

// Span names the ops emitted since first as a part of the current layer.
func (b *Builder) Span(name string, first graph.OpID) {
	b.G.Spans = append(b.G.Spans, graph.Span{Layer: b.G.Blocks[b.Block].Layer, Name: name, First: first, End: b.Next()})
}

// EndLayer names the ops since first as the whole layer; its locals go after them.
func (b *Builder) EndLayer(first graph.OpID) {
	b.Keep(b.Weights)
	b.Weights = graph.None
	b.Span("layer", first)
}

// Next is the number of the next op.
func (b *Builder) Next() graph.OpID { return graph.OpID(len(b.G.Ops)) }

// Tensor is a tensor of the graph.
func (b *Builder) Tensor(t graph.TensorID) *graph.Tensor { return &b.G.Tensors[t] }

// Static adds a tensor that lives outside the step.
func (b *Builder) Static(name string, role graph.Role, dt dtype.DType, shape graph.Dims) graph.TensorID {
	b.G.Storages = append(b.G.Storages, graph.Storage{Bytes: shape.Count() * dt.Size(), Born: graph.None, Drop: graph.DropAfterBackward, Role: role, Name: name})
	b.G.Tensors = append(b.G.Tensors, graph.Tensor{
		Layout: b.Layouts.Of(shape, shape.Contiguous()), Storage: graph.StorageID(len(b.G.Storages) - 1), DType: dt, Producer: graph.None, Param: graph.None,
	})
	if role == graph.Buffer || role == graph.Input {
		if f := b.fill(name, dt); f != (graph.Fill{}) {
			b.G.Step.Fills[graph.StorageID(len(b.G.Storages)-1)] = f
		}
	}
	return graph.TensorID(len(b.G.Tensors) - 1)
}

// param adds a parameter.
func (b *Builder) param(name string, dt dtype.DType, trained bool, shape graph.Dims) graph.TensorID {
	t := b.Static(name, graph.Parameter, dt, shape)
	n := shape.Count()
	b.Tensor(t).Param = graph.ParamID(len(b.G.Params))
	b.Tensor(t).Grad = trained
	b.G.Params = append(b.G.Params, graph.Param{Name: name, Tensor: t, Count: n, Bytes: n * dt.Size(), Trained: trained})
	return t
}

// Weight adds a parameter in the model's precision, trained unless the base model is frozen.
func (b *Builder) Weight(name string, shape ...int64) graph.TensorID {
	return b.param(name, b.Dtype, b.Spec.Train.LoRA == nil, graph.Shape(shape...))
}

// Emit adds an op. Its outputs are added by fresh and alias in order, right after it.
func (b *Builder) Emit(k graph.Kind, attr graph.Attr, ins ...graph.TensorID) *graph.Op {
	op := graph.Op{Kind: k, Attr: attr, In: int32(len(b.G.Args)), Nin: int8(len(ins)), Block: b.Block}
	id := b.Next()
	for i, t := range ins {
		x := b.Tensor(t)
		if x.Grad {
			op.Needs |= 1 << i
		}
		b.extend(x.Storage, id)
	}
	b.G.Args = append(b.G.Args, ins...)
	op.Out = int32(len(b.G.Args))
	b.G.Ops = append(b.G.Ops, op)
	return &b.G.Ops[id]
}

func (b *Builder) extend(s graph.StorageID, at graph.OpID) {
	if st := &b.G.Storages[s]; st.Drop < at {
		st.Drop = at
	}
}

// Keep says that Python locals hold the tensors until after the op emitted last.
func (b *Builder) Keep(ts ...graph.TensorID) {
	for _, t := range ts {
		if t >= 0 {
			b.extend(b.Tensor(t).Storage, b.Next()-1)
		}
	}
}

// KeepUntil says that the tensor is held until a point after the op list.
func (b *Builder) KeepUntil(t graph.TensorID, until graph.OpID) { b.extend(b.Tensor(t).Storage, until) }

// Output adds an output of the op emitted last.
func (b *Builder) Output(x graph.Tensor) graph.TensorID {
	op := &b.G.Ops[len(b.G.Ops)-1]
	x.Producer, x.Param, x.Output = b.Next()-1, graph.None, op.Nout
	x.Grad = op.Needs != 0 && (x.DType == dtype.F32 || x.DType.Low())
	id := graph.TensorID(len(b.G.Tensors))
	b.G.Tensors = append(b.G.Tensors, x)
	b.G.Args = append(b.G.Args, id)
	op.Nout++
	return id
}

// Fresh adds an output of the op emitted last with storage of its own; zero strides mean contiguous.
func (b *Builder) Fresh(dt dtype.DType, shape, stride graph.Dims) graph.TensorID {
	if stride.N == 0 {
		stride = shape.Contiguous()
	}
	at := b.Next() - 1
	b.G.Storages = append(b.G.Storages, graph.Storage{Bytes: shape.Count() * dt.Size(), Born: at, Drop: at, Name: b.G.Ops[at].Row().Aten})
	return b.Output(graph.Tensor{Layout: b.Layouts.Of(shape, stride), DType: dt, Storage: graph.StorageID(len(b.G.Storages) - 1)})
}

// View emits a view op and its output. Without a gradient there is no node and nothing to run: only the tensor.
func (b *Builder) View(k graph.Kind, attr graph.Attr, x graph.TensorID, shape, stride graph.Dims) graph.TensorID {
	v := *b.Tensor(x)
	v.Layout, v.View = b.Layouts.Of(shape, stride), k != graph.OpUnsafeView
	if !v.Grad {
		v.Param = graph.None
		b.G.Tensors = append(b.G.Tensors, v)
		return graph.TensorID(len(b.G.Tensors) - 1)
	}
	b.Emit(k, attr, x)
	return b.Output(v)
}

// Elementwise emits an op with one output over its inputs' common shape, in dtype dt.
func (b *Builder) Elementwise(k graph.Kind, dt dtype.DType, ins ...graph.TensorID) graph.TensorID {
	shape := b.Tensor(ins[0]).Shape
	var ls [4]*graph.Layout
	for i, t := range ins {
		x := b.Tensor(t)
		shape = graph.Broadcast(shape, x.Shape)
		ls[i] = x.Layout
	}
	b.Emit(k, graph.Attr{}, ins...)
	return b.Fresh(dt, shape, graph.ElementwiseStrides(shape, ls[:len(ins)]...))
}

// promote is the dtype of an elementwise result.
func (b *Builder) promote(x, y graph.TensorID) dtype.DType {
	dx, dy := b.Tensor(x).DType, b.Tensor(y).DType
	switch {
	case dx == dy || dy == dtype.Bool || dy == dtype.I64:
		return dx
	case dx == dtype.Bool || dx == dtype.I64:
		return dy
	}
	// a scalar tensor does not promote one with dimensions
	if b.Tensor(y).Shape.N == 0 {
		return dx
	}
	return dtype.F32
}
