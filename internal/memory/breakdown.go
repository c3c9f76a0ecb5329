package memory

import (
	"cmp"
	"slices"

	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// Category is a term of a memory breakdown.
type Category string

// The categories, in the order of tables.
const (
	Weights        Category = "weights"
	Gradients      Category = "gradients"
	OptimizerState Category = "optimizer state"
	Inputs         Category = "inputs and buffers"
	Saved          Category = "saved activations"
	RegionInputs   Category = "checkpoint inputs"
	Recomputed     Category = "recomputed activations"
	LogitsLoss     Category = "logits and loss"
	WeightCasts    Category = "autocast weight copies"
	ActGradients   Category = "activation gradients"
	Temporaries    Category = "temporaries"
)

// Categories lists them in order.
var Categories = []Category{Weights, Gradients, OptimizerState, Inputs, Saved, RegionInputs, Recomputed, LogitsLoss, WeightCasts, ActGradients, Temporaries}

// Owner is a group of equal tensors that are alive at an instant.
type Owner struct {
	Category Category
	// What made them: an ATen call, or "parameters" and the like.
	What  string
	Block string // label of the block, of the first if Count > 1
	Each  unit.Bytes
	Count int
}

// Bytes of the group.
func (o Owner) Bytes() unit.Bytes { return o.Each * unit.Bytes(o.Count) }

// Breakdown says who holds the bytes of an instant. The owners' bytes add up to the instant's.
type Breakdown struct {
	Instant Instant
	Owners  []Owner // largest first
}

// By sums a breakdown by category.
func (b *Breakdown) By(c Category) unit.Bytes {
	var n unit.Bytes
	for _, o := range b.Owners {
		if o.Category == c {
			n += o.Bytes()
		}
	}
	return n
}

// Explain lists what is alive at the second step's peak: the step is walked again.
func (t *Timeline) Explain() *Breakdown {
	h := &holders{peak: t.Peak, alive: make([]bool, t.schedule.Buffers().Len())}
	_, _ = walked(t.schedule, nil, func(m *machine) Observer { // it was walked before
		h.m = m
		for _, st := range m.p.static {
			h.alive[m.ids.storage(0, st, 0)] = true
		}
		if m.settled {
			h.state = int64(t.Optimizer)
		}
		return h
	})
	return &Breakdown{Instant: t.Peak, Owners: h.owners}
}

// holders observes a walk up to its peak.
type holders struct {
	m      *machine
	peak   Instant
	alive  []bool // by ID
	state  int64  // the optimizer's
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
	label := func(op model.OpID) string {
		if op < 0 {
			return "" // the model's own input, back from the host
		}
		return m.g.Blocks[m.g.Ops[op].Block].Label
	}
	add(OptimizerState, "optimizer state", "", h.state)
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
	inputOf := map[model.StorageID]bool{}
	for i := range m.s.Regions {
		for _, st := range m.s.Regions[i].Inputs {
			inputOf[st] = true
		}
	}
	saved := m.savedNow()
	var weights, inputs int64
	h.each(OfStorage, func(b Buffer) {
		st := &m.g.Storages[b.Index]
		c := Temporaries
		switch {
		case st.Born == model.None && b.Level == 0:
			if st.Role == model.Parameter {
				weights += st.Bytes
			} else {
				inputs += st.Bytes
			}
			return
		case st.Role == model.Logits:
			c = LogitsLoss
		case st.Role == model.WeightCast:
			c = WeightCasts
		case b.Level > 0:
			c = Recomputed
		case inputOf[model.StorageID(b.Index)]:
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
func (m *machine) readsLogits(op model.OpID) bool {
	for _, t := range m.g.Inputs(&m.g.Ops[op]) {
		if m.g.Storages[m.g.Tensors[t].Storage].Role == model.Logits {
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
