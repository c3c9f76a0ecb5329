package model

import "ckptplan/internal/hugepage"

// Builder writes a graph op by op, as the model's Python code would run it.
//
// Lifetimes of Python locals follow one rule: a tensor is freed after the last op that reads it, unless keep says
// that a local still holds it (a caller's variable, an argument of a running call).
type Builder struct {
	g         *Graph
	spec      *Spec
	constants Constants
	Options
	block    int32
	dtype    DType // of weights and, without autocast, of activations
	castType DType // what autocast casts to
	amp      bool  // inside an autocast region
	casts    map[TensorID]TensorID
	// weights are the attention weights that eager attention returned in the current layer, or None.
	weights TensorID
	// linearLayer is what a linear layer runs: F.linear, unless the class writes its own.
	linearLayer func(x, w, bias TensorID) TensorID
	layouts     Layouts
}

func newBuilder(s *Spec, c Constants, o Options) *Builder {
	low, amp := s.Precision.Autocast()
	n := s.L*100 + 200
	b := &Builder{
		g: &Graph{
			Chain: true, Loss: None,
			Step: Step{
				Origin: s, Class: s.Arch, Attention: s.Attention, Hidden: int64(s.H),
				Optimizer: s.Train.Optimizer, MicroBatches: max(1, s.Train.GradAccum), CPU: o.CPU, Checkpoint: o.Checkpoint, Fills: map[StorageID]Fill{},
			},
			Tensors: hugepage.Make[Tensor](n * 3 / 2), Storages: hugepage.Make[Storage](n),
			Ops: hugepage.Make[Op](n), args: hugepage.Make[TensorID](4 * n),
		},
		spec: s, constants: c.orDefaults(), Options: o, dtype: s.Precision.Weights(), castType: low, amp: amp, casts: map[TensorID]TensorID{}, weights: None,
	}
	b.linearLayer = b.linear
	return b
}

// begin starts a block; its ops are those emitted until the next one.
func (b *Builder) begin(label string, layer int) {
	b.endBlock()
	b.g.Blocks = append(b.g.Blocks, Block{Label: label, Layer: layer, First: b.next()})
	b.block = int32(len(b.g.Blocks) - 1)
	b.g.Layers = max(b.g.Layers, layer+1)
}

func (b *Builder) endBlock() {
	if n := len(b.g.Blocks); n > 0 {
		b.g.Blocks[n-1].End = b.next()
	}
}

// span names the ops emitted since first as a part of the current layer.
func (b *Builder) span(name string, first OpID) {
	b.g.Spans = append(b.g.Spans, Span{Layer: b.g.Blocks[b.block].Layer, Name: name, First: first, End: b.next()})
}

// endLayer names the ops since first as the whole layer; its locals go after them.
func (b *Builder) endLayer(first OpID) {
	b.keep(b.weights)
	b.weights = None
	b.span("layer", first)
}

func (b *Builder) next() OpID { return OpID(len(b.g.Ops)) }

func (b *Builder) tensor(t TensorID) *Tensor { return &b.g.Tensors[t] }

// static adds a tensor that lives outside the step.
func (b *Builder) static(name string, role Role, dt DType, shape Dims) TensorID {
	b.g.Storages = append(b.g.Storages, Storage{Bytes: shape.Count() * dt.Size(), Born: None, Drop: DropAfterBackward, Role: role, Name: name})
	b.g.Tensors = append(b.g.Tensors, Tensor{
		Layout: b.layouts.Of(shape, shape.Contiguous()), Storage: StorageID(len(b.g.Storages) - 1), DType: dt, Producer: None, Param: None,
	})
	if role == Buffer || role == Input {
		if f := b.fill(name, dt); f != (Fill{}) {
			b.g.Step.Fills[StorageID(len(b.g.Storages)-1)] = f
		}
	}
	return TensorID(len(b.g.Tensors) - 1)
}

// param adds a parameter.
func (b *Builder) param(name string, dt DType, trained bool, shape Dims) TensorID {
	t := b.static(name, Parameter, dt, shape)
	n := shape.Count()
	b.tensor(t).Param = ParamID(len(b.g.Params))
	b.tensor(t).Grad = trained
	b.g.Params = append(b.g.Params, Param{Name: name, Tensor: t, Count: n, Bytes: n * dt.Size(), Trained: trained})
	return t
}

// weight adds a parameter in the model's precision, trained unless the base model is frozen.
func (b *Builder) weight(name string, shape ...int64) TensorID {
	return b.param(name, b.dtype, b.spec.Train.LoRA == nil, Shape(shape...))
}

// emit adds an op. Its outputs are added by fresh and alias in order, right after it.
func (b *Builder) emit(k Kind, attr Attr, ins ...TensorID) *Op {
	op := Op{Kind: k, Attr: attr, in: int32(len(b.g.args)), nin: int8(len(ins)), Block: b.block}
	id := b.next()
	for i, t := range ins {
		x := b.tensor(t)
		if x.Grad {
			op.Needs |= 1 << i
		}
		b.extend(x.Storage, id)
	}
	b.g.args = append(b.g.args, ins...)
	op.out = int32(len(b.g.args))
	b.g.Ops = append(b.g.Ops, op)
	return &b.g.Ops[id]
}

func (b *Builder) extend(s StorageID, at OpID) {
	if st := &b.g.Storages[s]; st.Drop < at {
		st.Drop = at
	}
}

// keep says that Python locals hold the tensors until after the op emitted last.
func (b *Builder) keep(ts ...TensorID) {
	for _, t := range ts {
		if t >= 0 {
			b.extend(b.tensor(t).Storage, b.next()-1)
		}
	}
}

// keepUntil says that the tensor is held until a point after the op list.
func (b *Builder) keepUntil(t TensorID, until OpID) { b.extend(b.tensor(t).Storage, until) }

func (b *Builder) output(x Tensor) TensorID {
	op := &b.g.Ops[len(b.g.Ops)-1]
	x.Producer, x.Param, x.Output = b.next()-1, None, op.nout
	x.Grad = op.Needs != 0 && (x.DType == F32 || x.DType.Low())
	id := TensorID(len(b.g.Tensors))
	b.g.Tensors = append(b.g.Tensors, x)
	b.g.args = append(b.g.args, id)
	op.nout++
	return id
}

// fresh adds an output of the op emitted last with storage of its own; zero strides mean contiguous.
func (b *Builder) fresh(dt DType, shape, stride Dims) TensorID {
	if stride.N == 0 {
		stride = shape.Contiguous()
	}
	at := b.next() - 1
	b.g.Storages = append(b.g.Storages, Storage{Bytes: shape.Count() * dt.Size(), Born: at, Drop: at, Name: b.g.Ops[at].Row().Aten})
	return b.output(Tensor{Layout: b.layouts.Of(shape, stride), DType: dt, Storage: StorageID(len(b.g.Storages) - 1)})
}

// view emits a view op and its output. Without a gradient there is no node and nothing to run: only the tensor.
func (b *Builder) view(k Kind, attr Attr, x TensorID, shape, stride Dims) TensorID {
	v := *b.tensor(x)
	v.Layout, v.View = b.layouts.Of(shape, stride), k != OpUnsafeView
	if !v.Grad {
		v.Param = None
		b.g.Tensors = append(b.g.Tensors, v)
		return TensorID(len(b.g.Tensors) - 1)
	}
	b.emit(k, attr, x)
	return b.output(v)
}

// elementwise emits an op with one output over its inputs' common shape, in dtype dt.
func (b *Builder) elementwise(k Kind, dt DType, ins ...TensorID) TensorID {
	shape := b.tensor(ins[0]).Shape
	var ls [4]*Layout
	for i, t := range ins {
		x := b.tensor(t)
		shape = Broadcast(shape, x.Shape)
		ls[i] = x.Layout
	}
	b.emit(k, Attr{}, ins...)
	return b.fresh(dt, shape, ElementwiseStrides(shape, ls[:len(ins)]...))
}

// promote is the dtype of an elementwise result.
func (b *Builder) promote(x, y TensorID) DType {
	dx, dy := b.tensor(x).DType, b.tensor(y).DType
	switch {
	case dx == dy || dy == Bool || dy == I64:
		return dx
	case dx == Bool || dx == I64:
		return dy
	}
	// a scalar tensor does not promote one with dimensions
	if b.tensor(y).Shape.N == 0 {
		return dx
	}
	return F32
}
