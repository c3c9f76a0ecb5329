package graph

// Views: no kernel, no bytes.
var viewRows = rows{
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
}
