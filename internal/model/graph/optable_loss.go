package graph

// Losses.
var lossRows = rows{
	OpNLLLoss: {
		Aten: "aten.nll_loss_forward", Save: []Save{{I0, in0}, {I1, in0}, {O1, in0}},
		Back: []Call{{Full, "aten.nll_loss_backward", D0, [3]Slot{I0}}},
	},
	OpMSELoss: {
		Aten: "aten.mse_loss", Temps: []Slot{O1}, Save: []Save{{I0, in0}, {I1, in0}},
		Back: []Call{{Full, "aten.mse_loss_backward", D0, [3]Slot{I0}}},
	},
}
