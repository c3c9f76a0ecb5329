package graph

// Activations.
var activationRows = rows{
	OpTanh:    {Aten: "aten.tanh", Save: []Save{{O0, in0}}, Back: []Call{{Elementwise, "aten.tanh_backward", D0, [3]Slot{G0, O0}}}},
	OpSigmoid: {Aten: "aten.sigmoid", Save: []Save{{O0, in0}}, Back: []Call{{Elementwise, "aten.sigmoid_backward", D0, [3]Slot{G0, O0}}}},
	OpGelu:    {Aten: "aten.gelu", Save: []Save{{I0, in0}}, Back: []Call{{Elementwise, "aten.gelu_backward", D0, [3]Slot{G0, I0}}}},
	// BLOOM's autograd function of x; its backward is Python too (bloom_gelu_back).
	OpBloomGelu: {Aten: "aten.mul", Save: []Save{{I0, in0}}, Back: bloomGeluBack},
	OpSilu:      {Aten: "aten.silu", Save: []Save{{I0, in0}}, Back: []Call{{Elementwise, "aten.silu_backward", D0, [3]Slot{G0, I0}}}},
	OpRelu:      {Aten: "aten.relu", Save: []Save{{O0, in0}}, Back: []Call{{Elementwise, "aten.threshold_backward", D0, [3]Slot{G0, O0}}}},
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
