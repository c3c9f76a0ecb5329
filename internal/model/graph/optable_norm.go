package graph

// Reductions and norms.
var normRows = rows{
	OpMean: {Aten: "aten.mean", Back: []Call{{Spread, "aten.expand", T0, [3]Slot{G0, I0}}, {Elementwise, "aten.div", D0, [3]Slot{T0}}}},
	OpSum:  {Aten: "aten.sum", Back: []Call{{Spread, "aten.expand", D0, [3]Slot{G0, I0}}}},
	// sum over one dimension, which is removed.
	OpSumOver: {Aten: "aten.sum", Back: []Call{{Unfold, "aten.unsqueeze", T0, [3]Slot{G0}}, {Spread, "aten.expand", D0, [3]Slot{T0, I0}}}},
	// native_layer_norm(x, γ, β): output, mean, rstd; one kernel makes all three gradients.
	OpLayerNorm: {
		Aten: "aten.native_layer_norm", Save: []Save{{I0, in0 | in1 | in2}, {I1, in0 | in1 | in2}, {I2, in0 | in1 | in2}, {O1, in0 | in1}, {O2, in0 | in1}},
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
}
