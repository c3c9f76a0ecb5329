package model

// Kind is the row of an op in the op table.
type Kind uint8

// Row is all that is known about an op: what autograd keeps of it, and what its backward allocates.
// Sources: tools/autograd/derivatives.yaml and FunctionsManual.cpp of PyTorch 2.14, measured with tools/measure.py.
type Row struct {
	Aten string // the name PyTorch's dispatcher and profiler print
	Save []Save
	Back []Call
	Work Work
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
	OpDiv
	OpDivInPlace
	OpDivScalar
	OpRSub
	OpNeg
	OpPowScalar
	OpPowCube
	OpRsqrt
	OpTanh
	OpSigmoid
	OpGelu
	OpBloomGelu
	OpSilu
	OpRelu
	OpClamp
	OpMaskedFill
	OpWhere
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
	OpFlashAttention
	OpEfficientAttention
	OpCPUAttention
	// look-ups
	OpEmbedding
	OpIndex
	OpIndexAdd
	OpTopK
	OpGather1
	// without gradient
	OpPlain
	OpOnes
	OpArgument
	kinds
)

// Table is the op table, one row an op.
var Table = [kinds]Row{
	OpView:       {Aten: "aten.view", Work: Free, Back: []Call{{Reshape, "aten.view", D0, [3]Slot{G0, I0}}}},
	OpUnsafeView: {Aten: "aten._unsafe_view", Work: Free, Back: []Call{{Reshape, "aten.view", D0, [3]Slot{G0, I0}}}},
	OpTranspose:  {Aten: "aten.transpose", Work: Free, Back: []Call{{Swap, "aten.transpose", D0, [3]Slot{G0}}}},
	OpUnsqueeze:  {Aten: "aten.unsqueeze", Work: Free, Back: []Call{{Fold, "aten.squeeze", D0, [3]Slot{G0}}}},
	OpSqueeze:    {Aten: "aten.squeeze", Work: Free, Back: []Call{{Unfold, "aten.unsqueeze", D0, [3]Slot{G0}}}},
	OpExpand:     {Aten: "aten.expand", Work: Free, Back: []Call{{SumTo, "aten.sum", D0, [3]Slot{G0, I0}}}},
	OpSlice:      {Aten: "aten.slice", Work: Free, Back: []Call{{Full, "aten.slice_backward", D0, [3]Slot{I0, G0}}}},
	OpSelect:     {Aten: "aten.select", Work: Free, Back: []Call{{Full, "aten.select_backward", D0, [3]Slot{I0, G0}}}},
	OpSplit:      {Aten: "aten.split", Work: Free, Back: []Call{{Joined, "aten.cat", D0, [3]Slot{I0}}}},
	OpAlias:      {Aten: "aten.alias", Work: Free, Back: []Call{{Pass, "", D0, [3]Slot{G0}}}},

	OpClone:  {Aten: "aten.clone", Back: []Call{{Pass, "", D0, [3]Slot{G0}}}},
	OpToCopy: {Aten: "aten._to_copy", Back: []Call{{Cast, "aten._to_copy", D0, [3]Slot{G0, I0}}}},
	OpCat:    {Aten: "aten.cat", Back: []Call{{Slices, "aten.slice", D0, [3]Slot{G0}}}},
	// stack: a cat along a new dimension; backward selects.
	OpStack: {Aten: "aten.stack", Back: []Call{{Selects, "aten.select", D0, [3]Slot{G0}}}},
	OpPad:   {Aten: "aten.constant_pad_nd", Back: []Call{{Full, "aten.constant_pad_nd", D0, [3]Slot{I0, G0}}}},

	OpAdd:       {Aten: "aten.add", Back: []Call{{Pass, "", D0, [3]Slot{G0}}, {Pass, "", D1, [3]Slot{G0}}}},
	OpAddScalar: {Aten: "aten.add", Back: []Call{{Pass, "", D0, [3]Slot{G0}}}},
	OpSub:       {Aten: "aten.sub", Back: []Call{{Pass, "", D0, [3]Slot{G0}}, {Elementwise, "aten.neg", D1, [3]Slot{G0}}}},
	OpMul: {
		Aten: "aten.mul", Save: []Save{{I0, in1}, {I1, in0}},
		Back: []Call{{Elementwise, "aten.mul", D0, [3]Slot{G0, I1}}, {Elementwise, "aten.mul", D1, [3]Slot{G0, I0}}},
	},
	OpMulScalar: {Aten: "aten.mul", Back: []Call{{Elementwise, "aten.mul", D0, [3]Slot{G0}}}},
	OpDiv: {
		Aten: "aten.div", Save: []Save{{I0, in1}, {I1, in0 | in1}},
		Back: []Call{
			{Elementwise, "aten.div", T0, [3]Slot{I0, I1}},
			{Elementwise, "aten.div", T1, [3]Slot{T0, I1}},
			{Elementwise, "aten.neg", T2, [3]Slot{G0}},
			{Elementwise, "aten.mul", D1, [3]Slot{T2, T1}},
			{Elementwise, "aten.div", D0, [3]Slot{G0, I1}},
		},
	},
	// div_(x, y), and what x was: the copy that autograd keeps of it.
	OpDivInPlace: {
		Aten: "aten.div_", Save: []Save{{I2, in1}, {I1, in0 | in1}},
		Back: []Call{
			{Elementwise, "aten.div", T0, [3]Slot{I2, I1}},
			{Elementwise, "aten.div", T1, [3]Slot{T0, I1}},
			{Elementwise, "aten.neg", T2, [3]Slot{G0}},
			{Elementwise, "aten.mul", D1, [3]Slot{T2, T1}},
			{Elementwise, "aten.div", D0, [3]Slot{G0, I1}},
		},
	},
	OpDivScalar: {Aten: "aten.div", Back: []Call{{Elementwise, "aten.div", D0, [3]Slot{G0}}}},
	OpRSub:      {Aten: "aten.rsub", Back: []Call{{Elementwise, "aten.neg", D0, [3]Slot{G0}}}},
	OpNeg:       {Aten: "aten.neg", Back: []Call{{Elementwise, "aten.neg", D0, [3]Slot{G0}}}},
	OpPowScalar: powRow,
	OpPowCube:   powRow,
	OpRsqrt: {
		Aten: "aten.rsqrt", Save: []Save{{O0, in0}},
		Back: []Call{
			{Elementwise, "aten.pow", T0, [3]Slot{O0}},
			{Elementwise, "aten.mul", T1, [3]Slot{G0}},
			{Elementwise, "aten.mul", D0, [3]Slot{T1, T0}},
		},
	},
	OpTanh:    {Aten: "aten.tanh", Save: []Save{{O0, in0}}, Back: []Call{{Elementwise, "aten.tanh_backward", D0, [3]Slot{G0, O0}}}},
	OpSigmoid: {Aten: "aten.sigmoid", Save: []Save{{O0, in0}}, Back: []Call{{Elementwise, "aten.sigmoid_backward", D0, [3]Slot{G0, O0}}}},
	OpGelu:    {Aten: "aten.gelu", Save: []Save{{I0, in0}}, Back: []Call{{Elementwise, "aten.gelu_backward", D0, [3]Slot{G0, I0}}}},
	// BLOOM's autograd function of x; its backward is Python too (bloom_gelu_back).
	OpBloomGelu: {Aten: "aten.mul", Save: []Save{{I0, in0}}, Back: bloomGeluBack},
	OpSilu:      {Aten: "aten.silu", Save: []Save{{I0, in0}}, Back: []Call{{Elementwise, "aten.silu_backward", D0, [3]Slot{G0, I0}}}},
	OpRelu:      {Aten: "aten.relu", Save: []Save{{O0, in0}}, Back: []Call{{Elementwise, "aten.threshold_backward", D0, [3]Slot{G0, O0}}}},
	// clamp(x, min, max) with tensors for bounds, which take no gradient.
	OpClamp: {Aten: "aten.clamp", Save: []Save{{I0, in0}, {I1, in0}, {I2, in0}}, Back: clampBack},
	OpMaskedFill: {
		Aten: "aten.masked_fill", Save: []Save{{I1, in0}},
		Back: []Call{{Elementwise, "aten.masked_fill", D0, [3]Slot{G0}}},
	},
	OpWhere: {
		Aten: "aten.where", Save: []Save{{I0, in1 | in2}},
		Back: []Call{{Elementwise, "aten.where", D1, [3]Slot{G0}}, {Elementwise, "aten.where", D2, [3]Slot{G0}}},
	},
	// native_dropout: output and a one-byte mask; the mask is all that is kept.
	OpDropout: {Aten: "aten.native_dropout", Save: []Save{{O1, in0}}, Back: []Call{{Elementwise, "aten.native_dropout_backward", D0, [3]Slot{G0}}}},

	OpMean: {Aten: "aten.mean", Back: []Call{{Spread, "aten.expand", T0, [3]Slot{G0, I0}}, {Elementwise, "aten.div", D0, [3]Slot{T0}}}},
	OpSum:  {Aten: "aten.sum", Back: []Call{{Spread, "aten.expand", D0, [3]Slot{G0, I0}}}},
	// sum over one dimension, which is removed.
	OpSumOver: {Aten: "aten.sum", Back: []Call{{Unfold, "aten.unsqueeze", T0, [3]Slot{G0}}, {Spread, "aten.expand", D0, [3]Slot{T0, I0}}}},
	// native_layer_norm(x, γ, β): output, mean, rstd; one kernel makes all three gradients.
	OpLayerNorm: {
		Aten: "aten.native_layer_norm", Save: []Save{{I0, in0 | in1 | in2}, {I1, in0}, {O1, in0 | in1}, {O2, in0 | in1}},
		Back: []Call{
			{Full, "aten.native_layer_norm_backward", D0, [3]Slot{I0}},
			{Full, "aten.native_layer_norm_backward", D1, [3]Slot{I1}},
			{Full, "aten.native_layer_norm_backward", D2, [3]Slot{I2}},
		},
	},
	// _fused_rms_norm(x, γ): output, rstd.
	OpRMSNorm: {
		Aten: "aten._fused_rms_norm", Save: []Save{{I0, in0 | in1}, {I1, in0}, {O1, in0 | in1}},
		Back: []Call{
			{Full, "aten._fused_rms_norm_backward", D0, [3]Slot{I0}},
			{Full, "aten._fused_rms_norm_backward", D1, [3]Slot{I1}},
		},
	},
	OpSoftmax:    {Aten: "aten._softmax", Save: []Save{{O0, in0}}, Back: []Call{{Full, "aten._softmax_backward_data", D0, [3]Slot{O0, I0}}}},
	OpLogSoftmax: {Aten: "aten._log_softmax", Save: []Save{{O0, in0}}, Back: []Call{{Full, "aten._log_softmax_backward_data", D0, [3]Slot{O0, I0}}}},
	OpNLLLoss: {
		Aten: "aten.nll_loss_forward", Save: []Save{{I0, in0}, {I1, in0}, {O1, in0}},
		Back: []Call{{Full, "aten.nll_loss_backward", D0, [3]Slot{I0}}},
	},

	OpMSELoss: {
		Aten: "aten.mse_loss", Save: []Save{{I0, in0}, {I1, in0}},
		Back: []Call{{Full, "aten.mse_loss_backward", D0, [3]Slot{I0}}},
	},

	OpMM: {
		Aten: "aten.mm", Work: MatMul, Save: []Save{{I0, in1}, {I1, in0}},
		Back: []Call{{MatRight, "aten.mm", D1, [3]Slot{G0, I0, I1}}, {MatLeft, "aten.mm", D0, [3]Slot{G0, I1, I0}}},
	},
	// addmm(bias, a, b)
	OpAddMM: {
		Aten: "aten.addmm", Work: MatMul, Save: []Save{{I1, in2}, {I2, in1}},
		Back: []Call{
			{MatLeft, "aten.mm", D1, [3]Slot{G0, I2, I1}},
			{MatRight, "aten.mm", D2, [3]Slot{G0, I1, I2}},
			{Pass, "", D0, [3]Slot{G0}}, // summed to the bias's shape when the node is left
		},
	},
	OpBMM: {
		Aten: "aten.bmm", Work: MatMul, Save: []Save{{I0, in1}, {I1, in0}},
		Back: []Call{{MatRight, "aten.bmm", D1, [3]Slot{G0, I0}}, {MatLeft, "aten.bmm", D0, [3]Slot{G0, I1}}},
	},
	// baddbmm(c, a, b) = β·c + α·a·b
	OpBAddBMM: {
		Aten: "aten.baddbmm", Work: MatMul, Save: []Save{{I1, in2}, {I2, in1}},
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
		Aten: "aten.baddbmm", Work: MatMul, Save: []Save{{I1, in2}, {I2, in1}},
		Back: []Call{{MatLeft, "aten.bmm", D1, [3]Slot{G0, I2}}, {MatRight, "aten.bmm", D2, [3]Slot{G0, I1}}, {Pass, "", D0, [3]Slot{G0}}},
	},
	// convolution(x, w, b): backward is one kernel; the input's gradient only if needed. The weight is kept all the same.
	OpConv2D: {
		Aten: "aten.convolution", Work: MatMul, Save: []Save{{I0, in1}, {I1, in0 | in1}},
		Back: []Call{
			{Full, "aten.convolution_backward", D0, [3]Slot{I0}},
			{Full, "aten.convolution_backward", D1, [3]Slot{I1}},
			{Full, "aten.convolution_backward", D2, [3]Slot{I2}},
		},
	},
	// _grouped_mm(a, b, offsets)
	OpGroupedMM: {
		Aten: "aten._grouped_mm", Work: MatMul, Save: []Save{{I0, in1}, {I1, in0}, {I2, in0 | in1}},
		Back: []Call{{Like, "aten._grouped_mm", D1, [3]Slot{I1}}, {Full, "aten._grouped_mm", D0, [3]Slot{I0}}},
	},
	// flash: output, logsumexp fp32 [B, a, S], random state.
	OpFlashAttention: {
		Aten: "aten._scaled_dot_product_flash_attention", Work: Attention,
		Save: []Save{{I0, in0 | in1 | in2}, {I1, in0 | in1 | in2}, {I2, in0 | in1 | in2}, {O0, in0 | in1 | in2}, {O1, in0 | in1 | in2}, {O2, in0 | in1 | in2}, {O3, in0 | in1 | in2}},
		Back: []Call{
			{Like, "aten._scaled_dot_product_flash_attention_backward", D0, [3]Slot{I0}},
			{Like, "aten._scaled_dot_product_flash_attention_backward", D1, [3]Slot{I1}},
			{Like, "aten._scaled_dot_product_flash_attention_backward", D2, [3]Slot{I2}},
		},
	},
	// efficient (q, k, v, bias): output, logsumexp fp32 [B, a, ceil32(S)], seed, offset.
	OpEfficientAttention: {
		Aten: "aten._scaled_dot_product_efficient_attention", Work: Attention,
		Save: []Save{{I0, in0 | in1 | in2}, {I1, in0 | in1 | in2}, {I2, in0 | in1 | in2}, {I3, in0 | in1 | in2}, {O0, in0 | in1 | in2}, {O1, in0 | in1 | in2}, {O2, in0 | in1 | in2}, {O3, in0 | in1 | in2}},
		Back: []Call{
			{Like, "aten._scaled_dot_product_efficient_attention_backward", D0, [3]Slot{I0}},
			{Like, "aten._scaled_dot_product_efficient_attention_backward", D1, [3]Slot{I1}},
			{Like, "aten._scaled_dot_product_efficient_attention_backward", D2, [3]Slot{I2}},
			{Full, "aten._scaled_dot_product_efficient_attention_backward", D3, [3]Slot{I3}},
		},
	},
	// flash on the CPU (q, k, v): output, logsumexp fp32 [B, S, a].
	OpCPUAttention: {
		Aten: "aten._scaled_dot_product_flash_attention_for_cpu", Work: Attention,
		Save: []Save{{I0, in0 | in1 | in2}, {I1, in0 | in1 | in2}, {I2, in0 | in1 | in2}, {O0, in0 | in1 | in2}, {O1, in0 | in1 | in2}},
		Back: []Call{
			{Like, "aten._scaled_dot_product_flash_attention_for_cpu_backward", D0, [3]Slot{I0}},
			{Like, "aten._scaled_dot_product_flash_attention_for_cpu_backward", D1, [3]Slot{I1}},
			{Like, "aten._scaled_dot_product_flash_attention_for_cpu_backward", D2, [3]Slot{I2}},
		},
	},

	// embedding(weight, indices): a dense gradient of the whole table.
	OpEmbedding: {Aten: "aten.embedding", Work: Gather, Save: []Save{{I1, in0}}, Back: []Call{{Full, "aten.embedding_dense_backward", D0, [3]Slot{I0}}}},
	// index(x, rows): zeros like x, then index_put_ in place.
	OpIndex: {Aten: "aten.index", Work: Gather, Save: []Save{{I1, in0}}, Back: []Call{{Full, "aten.new_zeros", D0, [3]Slot{I0, G0}}}},
	// index_add(x, rows, source)
	OpIndexAdd: {
		Aten: "aten.index_add", Save: []Save{{I1, in2}},
		Back: []Call{{Pass, "", D0, [3]Slot{G0}}, {Full, "aten.index_select", D2, [3]Slot{I2}}},
	},
	// topk(x): values, indices; backward scatters into zeros.
	OpTopK:    {Aten: "aten.topk", Save: []Save{{O1, in0}}, Back: []Call{{Full, "aten.value_selecting_reduction_backward", D0, [3]Slot{I0}}}},
	OpGather1: {Aten: "aten.gather", Save: []Save{{I1, in0}}, Back: []Call{{Full, "aten.new_zeros", D0, [3]Slot{I0}}}},

	OpPlain: {Aten: "aten.op"},
	OpOnes:  {Aten: "aten.ones_like"},
	// a function's argument that no kernel of it reads: a checkpoint around the function keeps it.
	OpArgument: {Aten: "argument", Work: Free},
}

// pow(x, n) with n ≥ 2: grad · n·x^(n−1).
var powRow = Row{
	Aten: "aten.pow", Save: []Save{{I0, in0}},
	Back: []Call{
		{Elementwise, "aten.pow", T0, [3]Slot{I0}},
		{Elementwise, "aten.mul", T1, [3]Slot{T0}},
		{Elementwise, "aten.mul", D0, [3]Slot{G0, T1}},
	},
}

// bloomGeluBack, with t = tanh(0.79788456 * x * (1 + 0.044715 * x * x)):
//
//	(0.5 * x * ((1 - t * t) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + t)) * grad
var bloomGeluBack = []Call{
	{Elementwise, "aten.mul", T0, [3]Slot{I0}},
	{Elementwise, "aten.mul", T1, [3]Slot{I0}},
	{Elementwise, "aten.mul", T1, [3]Slot{T1, I0}},
	{Elementwise, "aten.add", T1, [3]Slot{T1}},
	{Elementwise, "aten.mul", T0, [3]Slot{T0, T1}},
	{Release, "", T1, [3]Slot{}},
	{Elementwise, "aten.tanh", T0, [3]Slot{T0}},
	{Elementwise, "aten.mul", T1, [3]Slot{I0}},
	{Elementwise, "aten.mul", T2, [3]Slot{T0, T0}},
	{Elementwise, "aten.rsub", T2, [3]Slot{T2}},
	{Elementwise, "aten.mul", T3, [3]Slot{I0}},
	{Elementwise, "aten.mul", T3, [3]Slot{T3, I0}},
	{Elementwise, "aten.add", T3, [3]Slot{T3}},
	{Elementwise, "aten.mul", T2, [3]Slot{T2, T3}},
	{Release, "", T3, [3]Slot{}},
	{Elementwise, "aten.mul", T1, [3]Slot{T1, T2}},
	{Release, "", T2, [3]Slot{}},
	{Elementwise, "aten.add", T2, [3]Slot{T0}},
	{Elementwise, "aten.mul", T2, [3]Slot{T2}},
	{Elementwise, "aten.add", T1, [3]Slot{T1, T2}},
	{Release, "", T2, [3]Slot{}},
	{Elementwise, "aten.mul", D0, [3]Slot{T1, G0}},
}

// clampBack halves the gradient where x is one of the bounds, and stops it outside them (clamp_backward):
//
//	where((min < max) & (x == min | x == max), grad / 2, grad).masked_fill(x < min | x > max, 0)
var clampBack = []Call{
	{Compare, "aten.eq", T0, [3]Slot{I0, I1}},
	{Compare, "aten.eq", T1, [3]Slot{I0, I2}},
	{Compare, "aten.logical_or", T2, [3]Slot{T0, T1}},
	{Compare, "aten.logical_and", T3, [3]Slot{T2}},
	{Release, "", T0, [3]Slot{}},
	{Release, "", T1, [3]Slot{}},
	{Compare, "aten.lt", T0, [3]Slot{I0, I1}},
	{Compare, "aten.gt", T1, [3]Slot{I0, I2}},
	{Compare, "aten.logical_or", T2, [3]Slot{T0, T1}},
	{Release, "", T0, [3]Slot{}},
	{Release, "", T1, [3]Slot{}},
	{Elementwise, "aten.div", T0, [3]Slot{G0}},
	{Elementwise, "aten.where", T1, [3]Slot{G0, T0}},
	{Elementwise, "aten.masked_fill", D0, [3]Slot{T1}},
}
