package graph

// Ops without a gradient.
var plainRows = rows{
	OpPlain: {Aten: "aten.op"},
	// a function's argument that no kernel of it reads: a checkpoint around the function keeps it.
	OpArgument: {Aten: "argument", Work: Free},
}
