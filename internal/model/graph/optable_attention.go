package graph

// Fused attention kernels: q, k, v, the output and the row sums are kept, no scores.
var attentionRows = rows{
	// flash: output, logsumexp fp32 [B, a, S], random state.
	OpFlashAttention: {
		Aten: "aten._scaled_dot_product_flash_attention", Work: Attention, CPU: []Kind{OpCPUAttention}, FLOPs: halfIfCausal, Label: "attention", Together: in0 | in1 | in2,
		Save: []Save{{I0, in0 | in1 | in2}, {I1, in0 | in1 | in2}, {I2, in0 | in1 | in2}, {O0, in0 | in1 | in2}, {O1, in0 | in1 | in2}, {O2, in0 | in1 | in2}, {O3, in0 | in1 | in2}},
		Back: []Call{
			{Like, "aten._scaled_dot_product_flash_attention_backward", D0, [3]Slot{I0}},
			{Like, "aten._scaled_dot_product_flash_attention_backward", D1, [3]Slot{I1}},
			{Like, "aten._scaled_dot_product_flash_attention_backward", D2, [3]Slot{I2}},
		},
	},
	// efficient (q, k, v, bias): output, logsumexp fp32 [B, a, ceil32(S)], seed, offset.
	OpEfficientAttention: {
		Aten: "aten._scaled_dot_product_efficient_attention", Work: Attention, CPU: []Kind{OpCPUAttention}, FLOPs: attentionScores, Label: "attention", Together: in0 | in1 | in2,
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
		Aten: "aten._scaled_dot_product_flash_attention_for_cpu", Work: Attention, FLOPs: attentionScores, Label: "attention", Together: in0 | in1 | in2,
		Save: []Save{{I0, in0 | in1 | in2}, {I1, in0 | in1 | in2}, {I2, in0 | in1 | in2}, {O0, in0 | in1 | in2}, {O1, in0 | in1 | in2}},
		Back: []Call{
			{Like, "aten._scaled_dot_product_flash_attention_for_cpu_backward", D0, [3]Slot{I0}},
			{Like, "aten._scaled_dot_product_flash_attention_for_cpu_backward", D1, [3]Slot{I1}},
			{Like, "aten._scaled_dot_product_flash_attention_for_cpu_backward", D2, [3]Slot{I2}},
		},
	},
}

// attentionScores is 4·B·a·S·Sk·D for q [B, a, S, D] and k [B, a, Sk, D]: two products, q·kᵀ and weights·v. Backward takes
// 5/2 of it, since the scores are made again.
func attentionScores(g *Graph, op *Op) int64 {
	in := g.Inputs(op)
	return 4 * g.Tensors[in[0]].Shape.Count() * g.Tensors[in[1]].Shape.D[2]
}

// halfIfCausal: flash skips the half above the diagonal.
func halfIfCausal(g *Graph, op *Op) int64 {
	n := attentionScores(g, op)
	if op.Attr.B != 0 {
		n /= 2
	}
	return n
}
