package graph

// Copies.
var copyRows = rows{
	OpClone:  {Aten: "aten.clone", Back: []Call{{Pass, "", D0, [3]Slot{G0}}}},
	OpToCopy: {Aten: "aten._to_copy", Transparent: true, Back: []Call{{Cast, "aten._to_copy", D0, [3]Slot{G0, I0}}}},
	OpCat:    {Aten: "aten.cat", Back: []Call{{Slices, "aten.slice", D0, [3]Slot{G0}}}},
	// stack: a cat along a new dimension; backward selects.
	OpStack: {Aten: "aten.stack", Back: []Call{{Selects, "aten.select", D0, [3]Slot{G0}}}},
	OpPad:   {Aten: "aten.constant_pad_nd", Back: []Call{{Full, "aten.constant_pad_nd", D0, [3]Slot{I0, G0}}}},
}
