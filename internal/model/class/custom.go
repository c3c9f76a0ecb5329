package class

import (
	"fmt"
	"strconv"
	"strings"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var custom = Class{
	Arch:     "custom",
	Spec:     spec.Spec{Norm: "layernorm", NormOrder: "pre", Activation: "gelu", Positions: "none", Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}},
	Forward:  Forward.custom,
	Problems: customProblems,
}

// blockOp is one op of a custom block.
type blockOp struct {
	name string  // linear, layernorm, dropout, attention, residual, or an activation
	out  int     // linear: width of the output
	p    float64 // dropout: probability
}

// BlockOps reads Spec.Ops. An op changes the width only if it is linear; a residual adds what the block, or the last
// residual, gave, so that the widths must agree.
func BlockOps(s *spec.Spec) ([]blockOp, error) {
	ops := make([]blockOp, 0, len(s.Ops))
	width := s.H
	for _, text := range s.Ops {
		name, arg, _ := strings.Cut(text, " ")
		op := blockOp{name: name}
		switch name {
		case "linear":
			factor, scaled := strings.CutSuffix(arg, "H")
			if scaled && factor == "" {
				factor = "1"
			}
			n, err := strconv.Atoi(factor)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("op %q: linear needs a width, such as linear 4H or linear 1024", text)
			}
			if scaled {
				n *= s.H
			}
			op.out, width = n, n
		case "dropout":
			p, err := strconv.ParseFloat(arg, 64)
			if err != nil || p < 0 || p >= 1 {
				return nil, fmt.Errorf("op %q: dropout needs a probability, such as dropout 0.1", text)
			}
			op.p = p
		case "residual", "attention":
			if width != s.H {
				return nil, fmt.Errorf("op %q: its input is %d wide, not H %d", text, width, s.H)
			}
		case "layernorm", "gelu", "relu", "silu", "tanh":
		default:
			return nil, fmt.Errorf("op %q: known are linear, layernorm, dropout, attention, residual, gelu, relu, silu, tanh", text)
		}
		ops = append(ops, op)
	}
	if width != s.H {
		return nil, fmt.Errorf("ops: a block gives width %d, the next one takes H %d", width, s.H)
	}
	return ops, nil
}

// custom is a stack of blocks of listed ops over features [B, S, H], or over an embedding of tokens with Vocab. With
// Labels a linear head and cross-entropy over every token follow, else the mean squared error.
func (b Forward) custom() {
	s := b.Spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ops, _ := BlockOps(s)
	features := graph.Shape(n, seq, h)
	var x, target graph.TensorID
	if s.Vocab > 0 {
		x = b.Static("x", graph.Input, dtype.I64, graph.Shape(n, seq))
	} else {
		x = b.Static("x", graph.Input, b.Dtype, features)
	}
	if s.Labels > 0 {
		target = b.Static("target", graph.Input, dtype.I64, graph.Shape(n, seq))
	} else {
		target = b.Static("target", graph.Input, b.Dtype, features)
	}
	b.Begin("embedding", graph.None)
	if s.Vocab > 0 {
		x = b.Embedding(b.Weight("embedding.weight", int64(s.Vocab), h), x)
	}
	for i := range s.L {
		b.Begin("layers."+strconv.Itoa(i), i)
		x = b.customBlock("layers."+strconv.Itoa(i)+".ops.", ops, x)
	}
	b.Begin("head", graph.None)
	if s.Labels > 0 {
		b.tokenHead(x, graph.None, target)
		b.Keep(x)
		return
	}
	b.KeepLogits(x)
	b.G.Loss = b.meanSquaredError(x, target)
}

func (b Forward) customBlock(p string, ops []blockOp, in graph.TensorID) graph.TensorID {
	first := b.Next()
	last, y := in, in
	for i, op := range ops {
		x, name := y, p+strconv.Itoa(i)
		width := b.Tensor(x).Shape.At(-1)
		switch op.name {
		case "linear":
			w, bias := b.Weight(name+".weight", int64(op.out), width), graph.TensorID(graph.None)
			if b.Spec.Bias.MLP {
				bias = b.Weight(name+".bias", int64(op.out))
			}
			y = b.Linear(x, w, bias)
		case "layernorm":
			y = b.Norm(x, name, width)
		case "dropout":
			y = b.Dropout(x, op.p)
		case "attention":
			y = b.multiheadAttention(name+".", x, graph.None)
		case "residual":
			y = b.Add(last, x)
			last = y
		default:
			y = b.Activation(op.name, x)
		}
		b.Keep(x)
	}
	b.Keep(in)
	b.EndLayer(first)
	return y
}

// meanSquaredError is F.mse_loss; autocast runs it in fp32. The result is allocated as large as the input and then
// resized to a scalar, which keeps the storage; the losses of the elements are a second tensor, made inside the op.
// Source: aten/src/ATen/native/Loss.cpp, mse_loss and mse_loss_out.
func (b Forward) meanSquaredError(x, target graph.TensorID) graph.TensorID {
	x, target = b.CastLoss(x), b.CastLoss(target)
	v := *b.Tensor(x)
	b.Emit(graph.OpMSELoss, graph.Attr{}, x, target)
	loss := b.Fresh(v.DType, v.Shape, graph.Dims{})
	b.Tensor(loss).Layout = b.Layouts.Of(graph.Dims{}, graph.Dims{})
	b.Fresh(v.DType, v.Shape, graph.Dims{})
	return loss
}

func customProblems(s *spec.Spec, add func(key, format string, args ...any)) {
	if len(s.Ops) == 0 {
		add("arch", "arch custom needs ops: the ops of one block, such as [linear 4H, gelu, linear H]")
	}
}
