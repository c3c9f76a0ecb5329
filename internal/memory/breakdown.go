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

// Explain lists what is alive at the second step's peak: the step is walked again up to there.
func (t *Timeline) Explain() (b *Breakdown) {
	m := newMachine(t.schedule)
	b = &Breakdown{Instant: t.Peak}
	m.settle()
	m.res = &StepResult{}
	m.trace = func(string) {
		if m.phase == t.Peak.Phase && m.live == t.Peak.Bytes {
			b.Owners = m.owners(t.Parameters, t.Inputs)
			panic(seen{})
		}
	}
	defer func() {
		if r := recover(); r != nil && r != (seen{}) {
			panic(r)
		}
	}()
	m.step()
	return b
}

// seen is the panic that ends a walk at the instant it was for.
type seen struct{}

// owners groups what is alive now.
func (m *machine) owners(weights, inputs unit.Bytes) []Owner {
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
		k := key{c, what, n}
		if o := groups[k]; o != nil {
			o.Count++
			return
		}
		groups[k] = &Owner{Category: c, What: what, Block: block, Each: unit.Bytes(n), Count: 1}
	}
	add(Weights, "parameters", "", int64(weights))
	add(Inputs, "token ids, labels, buffers", "", int64(inputs))
	rest := m.live - int64(weights+inputs)
	if m.state != nil {
		add(OptimizerState, "optimizer state", "", m.state.bytes)
		rest -= m.state.bytes
	}
	var grads int64
	isParam := map[int32]bool{}
	for _, x := range m.grad {
		if x > 0 {
			grads += m.p.tape.grads[x-1].bytes
			isParam[x-1] = true
		}
	}
	add(Gradients, "parameter gradients", "", grads)
	rest -= grads
	label := func(op model.OpID) string {
		if op < 0 {
			return "" // the model's own input, back from the host
		}
		return m.g.Blocks[m.g.Ops[op].Block].Label
	}
	for x := range m.p.tape.grads {
		if m.gradLive[x] && !isParam[int32(x)] {
			gr := &m.p.tape.grads[x]
			c := ActGradients
			if m.readsLogits(gr.op) {
				c = LogitsLoss
			}
			add(c, gr.aten, label(gr.op), gr.bytes)
			rest -= gr.bytes
		}
	}
	for range m.keptStates() {
		add(RegionInputs, "random state", "", m.g.RandomState)
		rest -= m.g.RandomState
	}
	inputOf := map[model.StorageID]bool{}
	for i := range m.s.Regions {
		for _, st := range m.s.Regions[i].Inputs {
			inputOf[st] = true
		}
	}
	saved := m.savedNow()
	for lv := range m.refs {
		for i, r := range m.refs[lv] {
			if r <= 0 || lv > 0 && m.cache[lv] != nil && m.cache[lv][i] {
				continue
			}
			st := &m.g.Storages[i]
			c := Temporaries
			switch {
			case st.Role == model.Logits:
				c = LogitsLoss
			case st.Role == model.WeightCast:
				c = WeightCasts
			case lv > 0:
				c = Recomputed
			case inputOf[model.StorageID(i)]:
				c = RegionInputs
			case saved[i]:
				c = Saved
			}
			add(c, st.Name, label(st.Born), st.Bytes)
			rest -= st.Bytes
		}
	}
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

// keptStates is the number of random states that checkpoints hold now.
func (m *machine) keptStates() int64 {
	if m.g.RandomState == 0 {
		return 0
	}
	return m.states / m.g.RandomState
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
