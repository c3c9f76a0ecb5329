package graph

// Arithmetic and dropout, element by element.
var elementwiseRows = rows{
	OpAdd:       {Aten: "aten.add", Back: []Call{{Pass, "", D0, [3]Slot{G0}}, {Pass, "", D1, [3]Slot{G0}}}},
	OpAddScalar: {Aten: "aten.add", Back: []Call{{Pass, "", D0, [3]Slot{G0}}}},
	OpSub:       {Aten: "aten.sub", Back: []Call{{Pass, "", D0, [3]Slot{G0}}, {Elementwise, "aten.neg", D1, [3]Slot{G0}}}},
	OpMul: {
		Aten: "aten.mul", Save: []Save{{I0, in1}, {I1, in0}},
		Back: []Call{{Elementwise, "aten.mul", D0, [3]Slot{G0, I1}}, {Elementwise, "aten.mul", D1, [3]Slot{G0, I0}}},
	},
	OpMulScalar: {Aten: "aten.mul", Back: []Call{{Elementwise, "aten.mul", D0, [3]Slot{G0}}}},
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
	OpNeg:       {Aten: "aten.neg", Back: []Call{{Elementwise, "aten.neg", D0, [3]Slot{G0}}}},
	// pow(x, n) with n ≥ 2: grad · n·x^(n−1).
	OpPowScalar: {
		Aten: "aten.pow", Save: []Save{{I0, in0}},
		Back: []Call{
			{Elementwise, "aten.pow", T0, [3]Slot{I0}},
			{Elementwise, "aten.mul", T1, [3]Slot{T0}},
			{Elementwise, "aten.mul", D0, [3]Slot{G0, T1}},
		},
	},
	OpRsqrt: {
		Aten: "aten.rsqrt", Save: []Save{{O0, in0}},
		Back: []Call{
			{Elementwise, "aten.pow", T0, [3]Slot{O0}},
			{Elementwise, "aten.mul", T1, [3]Slot{G0}},
			{Elementwise, "aten.mul", D0, [3]Slot{T1, T0}},
		},
	},
	// clamp(x, min, max) with tensors for bounds, which take no gradient.
	OpClamp: {Aten: "aten.clamp", Save: []Save{{I0, in0}, {I1, in0}, {I2, in0}}, Back: clampBack},
	// clamp(x, min, max) and clamp(x, max) with numbers: where((x > min) & (x < max), grad, 0).
	OpClampBetween: {
		Aten: "aten.clamp", Save: []Save{{I0, in0}},
		Back: []Call{
			{Scalar, "aten.scalar_tensor", T0, [3]Slot{G0}},
			{Compare, "aten.gt", T1, [3]Slot{I0}},
			{Compare, "aten.lt", T2, [3]Slot{I0}},
			{Elementwise, "aten.where", D0, [3]Slot{G0}},
		},
	},
	OpClampMax: {
		Aten: "aten.clamp", Save: []Save{{I0, in0}},
		Back: []Call{
			{Scalar, "aten.scalar_tensor", T0, [3]Slot{G0}},
			{Compare, "aten.lt", T1, [3]Slot{I0}},
			{Elementwise, "aten.where", D0, [3]Slot{G0}},
		},
	},
	OpMaskedFill: {
		Aten: "aten.masked_fill", Save: []Save{{I1, in0}},
		Back: []Call{{Elementwise, "aten.masked_fill", D0, [3]Slot{G0}}},
	},
	// native_dropout: output and a one-byte mask; the mask is all that is kept.
	OpDropout: {Aten: "aten.native_dropout", CPU: []Kind{OpPlain, OpMul}, Save: []Save{{O1, in0}}, Back: []Call{{Elementwise, "aten.native_dropout_backward", D0, [3]Slot{G0}}}},
}

// clampBack halves the gradient where x is one of the bounds, and stops it outside them (clamp_backward):
//
//	where((min < max) & (x == min | x == max), grad / 2, grad).masked_fill(x < min | x > max, 0)
var clampBack = []Call{
	{Compare, "aten.lt", T0, [3]Slot{I1, I2}},
	{Compare, "aten.eq", T1, [3]Slot{I0, I1}},
	{Compare, "aten.eq", T2, [3]Slot{I0, I2}},
	{Compare, "aten.logical_or", T3, [3]Slot{T1, T2}},
	{Compare, "aten.logical_and", T4, [3]Slot{T3, T0}},
	{Release, "", T1, [3]Slot{}},
	{Release, "", T2, [3]Slot{}},
	{Release, "", T3, [3]Slot{}},
	{Compare, "aten.lt", T1, [3]Slot{I0, I1}},
	{Compare, "aten.gt", T2, [3]Slot{I0, I2}},
	{Compare, "aten.logical_or", T3, [3]Slot{T1, T2}},
	{Release, "", T1, [3]Slot{}},
	{Release, "", T2, [3]Slot{}},
	{Elementwise, "aten.div", T1, [3]Slot{G0}},
	{Elementwise, "aten.where", T2, [3]Slot{G0, T1}},
	{Elementwise, "aten.masked_fill", D0, [3]Slot{T2}},
}
