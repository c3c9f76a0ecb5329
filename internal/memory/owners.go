package memory

import (
	"cmp"
	"slices"

	"ckptplan/internal/model/graph"
	"ckptplan/internal/unit"
)

// holders observes a walk up to its peak.
type holders struct {
	m      *machine
	peak   Instant
	alive  []bool // by ID
	owners []Owner
}

func (h *holders) Pass(_ Pass, at *Instant)        { h.see(at) }
func (h *holders) Block(int32, *Instant)           {}
func (h *holders) Free(id ID, _ int64, _ *Instant) { h.alive[id] = false }

func (h *holders) Alloc(id ID, _ int64, at *Instant) {
	h.alive[id] = true
	h.see(at)
}

func (h *holders) see(at *Instant) {
	if at.Phase == h.peak.Phase && at.Bytes == h.peak.Bytes {
		h.owners = h.grouped()
		h.m.observer = nil
	}
}

// each gives all live buffers of a kind.
func (h *holders) each(kind Kind, do func(Buffer)) {
	for id, alive := range h.alive {
		if alive {
			if b := h.m.ids.Of(ID(id)); b.Kind == kind {
				do(b)
			}
		}
	}
}

// grouped sums equal buffers that are alive now.
func (h *holders) grouped() []Owner {
	m, rest := h.m, h.m.at.Bytes
	type key struct {
		c    Category
		what string
		each int64
	}
	groups := map[key]*Owner{}
	add := func(c Category, what, block string, n int64) {
		if n == 0 {
			return
		}
		rest -= n
		k := key{c, what, n}
		if o := groups[k]; o != nil {
			o.Count++
			return
		}
		groups[k] = &Owner{Category: c, What: what, Block: block, Each: unit.Bytes(n), Count: 1}
	}
	label := func(op graph.OpID) string {
		if op < 0 {
			return "" // the model's own input, back from the host
		}
		return m.g.Blocks[m.g.Ops[op].Block].Label
	}
	var state, weights, inputs int64
	h.each(OfState, func(b Buffer) { state += m.stateBytes(b.Index) })
	add(OptimizerState, "optimizer state", "", state)
	add(Gradients, "parameter gradients", "", m.paramGrads)
	for _, id := range m.grad {
		if id != 0 {
			h.alive[id-1] = false // counted
		}
	}
	h.each(OfGradient, func(b Buffer) {
		gr, c := &m.p.tape.grads[b.Index], ActGradients
		if m.readsLogits(gr.op) {
			c = LogitsLoss
		}
		add(c, gr.aten, label(gr.op), gr.bytes)
	})
	h.each(OfRandomState, func(Buffer) { add(RegionInputs, "random state", "", m.g.RandomState) })
	inputOf := map[graph.StorageID]bool{}
	for i := range m.s.Regions {
		for _, st := range m.s.Regions[i].Inputs {
			inputOf[st] = true
		}
	}
	saved := m.savedNow()
	h.each(OfStorage, func(b Buffer) {
		st := &m.g.Storages[b.Index]
		c := Temporaries
		switch {
		case st.Born == graph.None && b.Level == 0:
			if st.Role == graph.Parameter {
				weights += st.Bytes
			} else {
				inputs += st.Bytes
			}
			return
		case st.Role == graph.Logits:
			c = LogitsLoss
		case st.Role == graph.WeightCast:
			c = WeightCasts
		case b.Level > 0:
			c = Recomputed
		case inputOf[graph.StorageID(b.Index)]:
			c = RegionInputs
		case saved[b.Index]:
			c = Saved
		}
		add(c, st.Name, label(st.Born), st.Bytes)
	})
	add(Weights, "parameters", "", weights)
	add(Inputs, "token ids, labels, buffers", "", inputs)
	add(Temporaries, "kernel and optimizer temporaries", "", rest)
	out := make([]Owner, 0, len(groups))
	for _, o := range groups {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Owner) int {
		return cmp.Or(-cmp.Compare(a.Bytes(), b.Bytes()), cmp.Compare(a.Category, b.Category), cmp.Compare(a.What, b.What), cmp.Compare(a.Each, b.Each))
	})
	return out
}

// readsLogits is true for the gradients of ops that read logits: the loss and the casts before it.
func (m *machine) readsLogits(op graph.OpID) bool {
	for _, t := range m.g.Inputs(&m.g.Ops[op]) {
		if m.g.Storages[m.g.Tensors[t].Storage].Role == graph.Logits {
			return true
		}
	}
	return false
}

// savedNow marks storages that some node of the forward pass keeps.
func (m *machine) savedNow() []bool {
	out := make([]bool, len(m.g.Storages))
	for i := range m.g.Ops {
		if own := m.s.Owner[i]; own >= 0 {
			continue
		}
		e := &m.p.ops[i]
		for _, s := range m.p.saves[e.save:e.saveEnd] {
			out[s.storage] = true
		}
	}
	return out
}
