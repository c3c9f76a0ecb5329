package graph

// Look-ups.
var lookupRows = rows{
	// embedding(weight, indices): a dense gradient of the whole table.
	OpEmbedding: {Aten: "aten.embedding", Work: Gather, Save: []Save{{I1, in0}}, Back: []Call{{Full, "aten.embedding_dense_backward", D0, [3]Slot{I0}}}},
	// index(x, rows): zeros like x, then index_put_ in place.
	OpIndex: {Aten: "aten.index", Work: Gather, Save: []Save{{I1, in0}, {I2, in0}}, Back: []Call{{Full, "aten.new_zeros", D0, [3]Slot{I0, G0}}}},
	// max(x, −1): values, indices, as topk.
	OpMax: {Aten: "aten.max", Save: []Save{{O1, in0}}, Back: []Call{{Full, "aten.value_selecting_reduction_backward", D0, [3]Slot{I0}}}},
	// topk(x): values, indices; backward scatters into zeros.
	OpTopK: {Aten: "aten.topk", Save: []Save{{O1, in0}}, Back: []Call{{Full, "aten.value_selecting_reduction_backward", D0, [3]Slot{I0}}}},
}
