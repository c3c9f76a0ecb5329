package menu

import (
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
)

// Offload is the options that move what a layer keeps to pinned host memory: every saved tensor, with nothing recomputed,
// or the inputs of a layer that is recomputed. With window 0 copies run on the compute stream, as
// torch.autograd.graph.save_on_cpu's do, and their time adds to the step's; with a window the saved tensors have that
// many following layers to leave and to come back.
func Offload(window int) []plan.Option {
	return []plan.Option{
		{Name: "offload", Regions: []plan.Region{{Span: "layer", Offload: "saved", Window: window}}},
		{Name: "offload-inputs", Regions: []plan.Region{{Span: "layer", Offload: "inputs"}}},
	}
}

// Staging is the bytes that copies under way may hold on the device at once with a window: the layers of the window and the
// one that runs.
func (m *Menu) Staging(window int) int64 {
	var most int64
	for k := range m.Options {
		if windowed(m.Options[k]) {
			for l := range m.Same {
				most = max(most, m.At(k, l).Host)
			}
		}
	}
	return int64(window+1) * most
}

func windowed(o plan.Option) bool {
	return slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return r.Window > 0 })
}

// overlap turns the prices of synchronous copies into those of copies behind the following layers' work. In the long
// run every layer's copies share the link with its neighbours', so of each direction that much shows which the layer's
// own forward, or backward, is too short for, however wide the window. The simulator has each copy's true wait.
func overlap(blocks []memory.BlockProfile) {
	for i := range blocks {
		b := &blocks[i]
		out := b.Transfer / 2
		b.Transfer = max(0, out-b.Forward) + max(0, b.Transfer-out-b.Backward)
	}
}
