package graph

// Softmax: what is kept for backward is the output alone.
var softmaxRows = rows{
	OpSoftmax:    {Aten: "aten._softmax", Save: []Save{{O0, in0}}, Back: []Call{{Full, "aten._softmax_backward_data", D0, [3]Slot{O0, I0}}}},
	OpLogSoftmax: {Aten: "aten._log_softmax", Save: []Save{{O0, in0}}, Back: []Call{{Full, "aten._log_softmax_backward_data", D0, [3]Slot{O0, I0}}}},
}
