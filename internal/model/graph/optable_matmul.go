package graph

// Matrix products and convolutions.
var matmulRows = rows{
	OpMM: {
		Aten: "aten.mm", Work: MatMul, FLOPs: productOf(0), Save: []Save{{I0, in1}, {I1, in0}},
		Back: []Call{{MatRight, "aten.mm", D1, [3]Slot{G0, I0, I1}}, {MatLeft, "aten.mm", D0, [3]Slot{G0, I1, I0}}},
	},
	// addmm(bias, a, b)
	OpAddMM: {
		Aten: "aten.addmm", Work: MatMul, FLOPs: productOf(1), Save: []Save{{I1, in2}, {I2, in1}},
		Back: []Call{
			{MatLeft, "aten.mm", D1, [3]Slot{G0, I2, I1}},
			{MatRight, "aten.mm", D2, [3]Slot{G0, I1, I2}},
			{Pass, "", D0, [3]Slot{G0}}, // summed to the bias's shape when the node is left
		},
	},
	OpBMM: {
		Aten: "aten.bmm", Work: MatMul, FLOPs: productOf(0), Save: []Save{{I0, in1}, {I1, in0}},
		Back: []Call{{MatRight, "aten.bmm", D1, [3]Slot{G0, I0}}, {MatLeft, "aten.bmm", D0, [3]Slot{G0, I1}}},
	},
	// baddbmm(c, a, b) = β·c + α·a·b
	OpBAddBMM: {
		Aten: "aten.baddbmm", Work: MatMul, FLOPs: productOf(1), Save: []Save{{I1, in2}, {I2, in1}},
		Back: []Call{
			{MatLeft, "aten.bmm", T0, [3]Slot{G0, I2}},
			{Elementwise, "aten.mul", D1, [3]Slot{T0}},
			{MatRight, "aten.bmm", T0, [3]Slot{G0, I1}},
			{Elementwise, "aten.mul", D2, [3]Slot{T0}},
			{Pass, "", D0, [3]Slot{G0}},
		},
	},
	// baddbmm(c, a, b) = c + a·b, without factors
	OpBMMAdd: {
		Aten: "aten.baddbmm", Work: MatMul, FLOPs: productOf(1), Save: []Save{{I1, in2}, {I2, in1}},
		Back: []Call{{MatLeft, "aten.bmm", D1, [3]Slot{G0, I2}}, {MatRight, "aten.bmm", D2, [3]Slot{G0, I1}}, {Pass, "", D0, [3]Slot{G0}}},
	},
	// convolution(x, w, b): backward is one kernel; the input's gradient only if needed. The weight is kept all the same.
	OpConv2D: {
		Aten: "aten.convolution", Work: MatMul, FLOPs: convolution, Save: []Save{{I0, in1}, {I1, in0 | in1}},
		Back: []Call{
			{Full, "aten.convolution_backward", D0, [3]Slot{I0}},
			{Full, "aten.convolution_backward", D1, [3]Slot{I1}},
			{Full, "aten.convolution_backward", D2, [3]Slot{I2}},
		},
	},
	// bitsandbytes.matmul_4bit(x, w, bias) of a frozen weight: dequantised as a whole (O1) for the product, and again in backward.
	// Source: bitsandbytes 0.50, autograd/_functions.py, MatMul4Bit; backends/default/ops.py, _gemm_4bit_default_impl.
	OpMatmul4Bit: {
		Aten: "bitsandbytes.gemm_4bit", Work: MatMul, FLOPs: productOf(0), Temps: []Slot{O1},
		Back: []Call{{Elementwise, "bitsandbytes.dequantize_4bit", T0, [3]Slot{O1}}, {MatLeft, "aten.mm", D0, [3]Slot{G0, T0}}},
	},
	// The same with double quantisation, whose scales are dequantised first (O2).
	OpMatmul4BitDouble: {
		Aten: "bitsandbytes.gemm_4bit", Work: MatMul, FLOPs: productOf(0), Temps: []Slot{O1, O2},
		Back: []Call{
			{Elementwise, "bitsandbytes.dequantize_blockwise", T0, [3]Slot{O2}},
			{Elementwise, "bitsandbytes.dequantize_4bit", T1, [3]Slot{O1}},
			{Release, "", T0, [3]Slot{}},
			{MatLeft, "aten.mm", D0, [3]Slot{G0, T1}},
		},
	},
	// _grouped_mm(a, b, offsets)
	OpGroupedMM: {
		Aten: "aten._grouped_mm", Work: MatMul, FLOPs: productOf(0), Save: []Save{{I0, in1}, {I1, in0}, {I2, in0 | in1}},
		Back: []Call{{Like, "aten._grouped_mm", D1, [3]Slot{I1}}, {Full, "aten._grouped_mm", D0, [3]Slot{I0}}},
	},
}

// productOf gives the FLOPs of a product whose left factor is input i: 2·M·N·K.
func productOf(i int) func(*Graph, *Op) int64 {
	return func(g *Graph, op *Op) int64 {
		return 2 * g.Tensors[g.Outputs(op)[0]].Shape.Count() * g.Tensors[g.Inputs(op)[i]].Shape.At(-1)
	}
}

// convolution is 2·(outputs)·(elements of one filter).
func convolution(g *Graph, op *Op) int64 {
	w := g.Tensors[g.Inputs(op)[1]].Shape
	return 2 * g.Tensors[g.Outputs(op)[0]].Shape.Count() * (w.Count() / w.D[0])
}
