package memory

import "ckptplan/internal/model"

// Times are nanoseconds of kernel time by what they are spent on.
type Times struct {
	Forward, Backward, Recompute, Optimizer, Transfer int64
}

type costs struct{ ops, grads []int64 }

type tracer struct{ fn func(m *machine, aten string) }

func (t *tracer) at(m *machine, aten string) { t.fn(m, aten) }

func (m *machine) spend(i model.OpID, lv int32) {}
