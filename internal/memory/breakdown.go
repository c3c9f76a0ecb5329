package memory

import "ckptplan/internal/unit"

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

// Breakdown says what holds the bytes of an instant. The owners' bytes add up to the instant's.
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

// Explain lists what is alive at the second step's peak. It walks the step again.
func (t *Timeline) Explain() *Breakdown {
	h := &holders{peak: t.Peak, alive: make([]bool, t.schedule.Buffers().Len())}
	_, _ = walked(t.schedule, nil, func(m *machine) Observer { // the same walk succeeded before
		h.m = m
		return h
	})
	return &Breakdown{Instant: t.Peak, Owners: h.owners}
}
