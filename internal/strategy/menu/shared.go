package menu

import (
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// shared is a storage that several layers read and that some options at some layers keep: the mask of eager attention, or
// the position bias that the first layer of a T5 stack makes for all of them, which a region that reads it must keep and
// which has no other keeper. It is alive in backward until the first layer that keeps it is done, however many keep it; so the
// first keeper alone is charged with it (solve.Problem.Shared).
type shared struct {
	bytes int64
	holds [][]bool // by layer of the chain, by option
}

// dropped is a storage that forward frees in a layer, or in the head, unless some layer keeps it.
type dropped struct {
	shared
	in     int  // that layer of the chain, its number of layers for the head
	made   bool // a layer made it
	byKeep bool // some layer keeps it if all layers keep everything
}

// counts reports whether the plan decides when forward frees it: some layer may keep it. If a layer made it, that layer is
// not the one in which it is freed, and no layer must keep it.
func (d *dropped) counts() bool {
	some := false
	for l, h := range d.holds {
		if d.made && !slices.Contains(h, false) {
			return false
		}
		some = some || (l != d.in || !d.made) && slices.Contains(h, true)
	}
	return some
}

// freed is the bytes that forward frees in a layer of the chain if all layers take option k, because no layer then
// keeps them; with another choice some layer may.
func (m *Menu) freed(layer, k int) int64 {
	var n int64
	for i := range m.late {
		if d := &m.late[i]; d.in == layer && d.counts() && d.released(k) < 0 {
			n += d.bytes
		}
	}
	return n
}

// FreedByHead is the bytes that the head frees in forward if every layer keeps everything, but that some option would keep.
func (m *Menu) FreedByHead() int64 {
	var n int64
	for i := range m.late {
		if d := &m.late[i]; d.in == m.Chain.Graph.Layers && d.counts() && !d.byKeep {
			n += d.bytes
		}
	}
	return n
}

// sharing is the storages made before the layers, or by a layer for others (which chains do not have), that options keep.
// Each is charged once.
//
// A storage that only one layer can keep is that layer's own input. One that the caller holds until backward is done is
// charged to no layer. One that its first keeper keeps under every option (an encoder's output, in the first layer of the
// decoder) is charged to that layer.
type sharing struct {
	always  int64                    // every option at every layer keeps it (cos, sin), so it is part of the base
	shared  []shared                 // some options keep it; it is charged to the first layer that does
	late    []dropped                // forward frees it in a layer other than the first, or in the head, unless a layer keeps it
	several map[graph.StorageID]bool // those among them that a layer made
}

// findShared finds them in a program.
func findShared(p *memory.Program, options []plan.Option) (*sharing, error) {
	g := p.Graph
	first := g.LayerBlock(0)
	begin := g.Blocks[first].First
	found := map[graph.StorageID]*shared{}
	var order []graph.StorageID
	for k := range options {
		s, err := Uniform(p, options[k])
		if err != nil {
			return nil, err
		}
		before := s.Keeps(0, begin) // kept by the embedding itself, longer than by any layer
		for l := range g.Layers {
			for st := range s.Keeps(g.LayerOps(l)) {
				if g.Chain && g.Storages[st].Born >= begin || before[st] || g.Storages[st].Drop == graph.DropAfterBackward {
					continue
				}
				sh := found[st]
				if sh == nil {
					sh = &shared{bytes: g.Storages[st].Bytes, holds: make([][]bool, g.Layers)}
					for i := range sh.holds {
						sh.holds[i] = make([]bool, len(options))
					}
					found[st] = sh
					order = append(order, st)
				}
				sh.holds[l][k] = true
			}
		}
	}
	slices.Sort(order)
	out := &sharing{several: map[graph.StorageID]bool{}}
	for _, st := range order {
		sh := found[st]
		if in := droppedIn(g, st); in > 0 {
			out.late = append(out.late, dropped{*sh, in, g.Storages[st].Born >= begin, sh.released(0) >= 0})
		}
		if g.Storages[st].Born >= begin {
			if !sh.contested() {
				continue
			}
			out.several[st] = true
		}
		all, later := true, false
		for l := range sh.holds {
			all = all && !slices.Contains(sh.holds[l], false)
			later = later || l > 0 && slices.Contains(sh.holds[l], true)
		}
		if !later {
			continue
		}
		if all {
			out.always += sh.bytes
			continue
		}
		if i := slices.IndexFunc(out.shared, func(o shared) bool { return slices.EqualFunc(o.holds, sh.holds, slices.Equal[[]bool]) }); i >= 0 {
			out.shared[i].bytes += sh.bytes
		} else {
			out.shared = append(out.shared, *sh)
		}
	}
	return out, nil
}

// holdsOwnOutput is true if a layer that is kept holds what the next block reads of it: the result of a ReLU at the
// layer's end. Then a tensor is held by two layers until the backward of the first, and what a layer keeps is not its own:
// prices of the one depend on the other.
func holdsOwnOutput(p *memory.Program) (bool, error) {
	g := p.Graph
	s, err := Uniform(p, plan.Keep)
	if err != nil {
		return false, err
	}
	for l := range min(g.Layers, 2) {
		n := g.LayerBlock(l)
		b, next := &g.Blocks[n], &g.Blocks[n+1]
		for st := range s.Keeps(b.First, b.End) {
			if born := g.Storages[st].Born; born < b.First || born >= b.End {
				continue
			}
			for i := next.First; i < next.End; i++ {
				if slices.ContainsFunc(g.Inputs(&g.Ops[i]), func(t graph.TensorID) bool { return g.Tensors[t].Storage == st }) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// contested is true if the choice decides which layer frees s last: several layers can keep it, and the first of them need
// not.
func (s *shared) contested() bool {
	first := slices.IndexFunc(s.holds, func(h []bool) bool { return slices.Contains(h, true) })
	return slices.Contains(s.holds[first], false) && slices.ContainsFunc(s.holds[first+1:], func(h []bool) bool { return slices.Contains(h, true) })
}

// droppedIn is the layer in which forward frees a storage unless it is kept for backward (between two stacks,
// the layer behind: memory.BlockProfile), the number of layers if the head does, −1 if it is held to the end or freed before
// the layers.
func droppedIn(g *graph.Graph, st graph.StorageID) int {
	drop := g.Storages[st].Drop
	if drop < 0 || int(drop) >= len(g.Ops) {
		return -1
	}
	if first, _ := g.LayerOps(0); drop < first {
		return -1
	}
	for l := range g.Layers {
		if _, end := g.LayerOps(l); drop < end {
			return l
		}
	}
	return g.Layers
}

// released is the layer of the chain whose backward frees s if all its layers take option k, or −1.
func (s *shared) released(k int) int {
	return slices.IndexFunc(s.holds, func(h []bool) bool { return h[k] })
}

// without is s in a menu from which options are dropped.
func (s *shared) without(drop []bool) shared {
	out := shared{bytes: s.bytes}
	for _, h := range s.holds {
		out.holds = append(out.holds, undropped(h, drop))
	}
	return out
}

// held is the set of shared tensors that option k keeps at a layer.
func (m *Menu) held(k, layer int) uint32 {
	var set uint32
	for u := range m.shared {
		if m.shared[u].holds[m.Same[layer]][k] {
			set |= 1 << u
		}
	}
	return set
}

// SharedBytes is the bytes of all shared storages together.
func (m *Menu) SharedBytes() int64 {
	var n int64
	for u := range m.shared {
		n += m.shared[u].bytes
	}
	return n
}
