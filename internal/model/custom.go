package model

import (
	"fmt"
	"strconv"
	"strings"
)

var custom = class{
	arch:     "custom",
	spec:     Spec{Norm: "layernorm", NormOrder: "pre", Activation: "gelu", Positions: "none", Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}},
	forward:  forward.custom,
	problems: customProblems,
}

// blockOp is one op of a custom block.
type blockOp struct {
	name string  // linear, layernorm, dropout, attention, residual, or an activation
	out  int     // linear: width of the output
	p    float64 // dropout: probability
}

// blockOps reads Spec.Ops. An op changes the width only if it is linear; a residual adds what the block, or the last
// residual, gave, so that the widths must agree.
func blockOps(s *Spec) ([]blockOp, error) {
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
func (b forward) custom() {
	s := b.spec
	n, seq, h := int64(s.B), int64(s.S), int64(s.H)
	ops, _ := blockOps(s)
	features := Shape(n, seq, h)
	var x, target TensorID
	if s.Vocab > 0 {
		x = b.static("x", Input, I64, Shape(n, seq))
	} else {
		x = b.static("x", Input, b.dtype, features)
	}
	if s.Labels > 0 {
		target = b.static("target", Input, I64, Shape(n, seq))
	} else {
		target = b.static("target", Input, b.dtype, features)
	}
	b.begin("embedding", None)
	if s.Vocab > 0 {
		x = b.embedding(b.weight("embedding.weight", int64(s.Vocab), h), x)
	}
	for i := range s.L {
		b.begin("layers."+strconv.Itoa(i), i)
		x = b.customBlock("layers."+strconv.Itoa(i)+".ops.", ops, x)
	}
	b.begin("head", None)
	if s.Labels > 0 {
		b.tokenHead(x, None, target)
		b.keep(x)
		return
	}
	b.keepLogits(x)
	b.g.Loss = b.meanSquaredError(x, target)
}

func (b forward) customBlock(p string, ops []blockOp, in TensorID) TensorID {
	first := b.next()
	last, y := in, in
	for i, op := range ops {
		x, name := y, p+strconv.Itoa(i)
		width := b.tensor(x).Shape.At(-1)
		switch op.name {
		case "linear":
			w, bias := b.weight(name+".weight", int64(op.out), width), TensorID(None)
			if b.spec.Bias.MLP {
				bias = b.weight(name+".bias", int64(op.out))
			}
			y = b.linear(x, w, bias)
		case "layernorm":
			y = b.norm(x, name, width)
		case "dropout":
			y = b.dropout(x, op.p)
		case "attention":
			y = b.multiheadAttention(name+".", x, None)
		case "residual":
			y = b.add(last, x)
			last = y
		default:
			y = b.activation(op.name, x)
		}
		b.keep(x)
	}
	b.keep(in)
	b.endLayer(first)
	return y
}

// meanSquaredError is F.mse_loss; autocast runs it in fp32. The result is allocated as large as the input and then
// resized to a scalar, which keeps the storage; the losses of the elements are a second tensor, made inside the op.
// Source: aten/src/ATen/native/Loss.cpp, mse_loss and mse_loss_out.
func (b forward) meanSquaredError(x, target TensorID) TensorID {
	x, target = b.castLoss(x), b.castLoss(target)
	v := *b.tensor(x)
	b.emit(OpMSELoss, Attr{}, x, target)
	loss := b.fresh(v.DType, v.Shape, Dims{})
	b.tensor(loss).Layout = b.layouts.Of(Dims{}, Dims{})
	b.fresh(v.DType, v.Shape, Dims{})
	return loss
}

func customProblems(s *Spec, add func(key, format string, args ...any)) {
	if len(s.Ops) == 0 {
		add("arch", "arch custom needs ops: the ops of one block, such as [linear 4H, gelu, linear H]")
	}
}
