package memory

import "ckptplan/internal/model/graph"

// ID numbers a buffer, from 0 on and without large gaps, so that an observer can keep a table by ID. No two buffers of a
// walk that are alive at once have the same ID; a buffer that is made again, in a later step, has the same one.
type ID int32

// Kind says what a buffer holds.
type Kind uint8

// The kinds of buffers.
const (
	OfStorage     Kind = iota // a storage of the graph: a parameter, an input, what forward or a recompute makes
	OfGradient                // made by backward, including a parameter's gradient once it has arrived there
	OfReturned                // a saved tensor, back from the host
	OfRandomState             // of a checkpoint
	OfState                   // the optimizer's, of a parameter
	OfTemporary               // the optimizer's, or a copy on its way to the host
)

// Buffer is what an ID stands for.
type Buffer struct {
	Kind  Kind
	Micro int32 // the micro batch; 0 for parameters, inputs and the optimizer's
	Level int32 // 0 in forward; a region of depth d recomputes at level d
	// Index is the storage, the tape's gradient, the program's saved tensor or the schedule's region; for the optimizer,
	// a parameter plus the number of all parameters times which of its tensors it is.
	Index int32
}

// Buffers are all buffers of a schedule's walk.
type Buffers struct {
	storages, levels, grads, saves, regions, params int32
	perBatch, batches                               int32
	states, temps                                   int32 // numbers of the optimizer's
}

// Buffers of the schedule's walk.
func (s *Schedule) Buffers() *Buffers {
	b := &Buffers{
		storages: int32(len(s.Program.Graph.Storages)), levels: 1, grads: int32(len(s.Program.tape.grads)), saves: int32(len(s.Program.saves)),
		regions: int32(len(s.Regions)), params: int32(len(s.Program.Graph.Params)),
	}
	for i := range s.Regions {
		b.levels = max(b.levels, s.Regions[i].Depth+1)
	}
	for _, p := range s.Passes {
		b.batches = max(b.batches, p.Micro+1)
	}
	b.perBatch = (b.storages+b.regions)*b.levels + b.grads + b.saves
	b.states = b.params*int32(len(s.Optimizer.State)+1) + 1
	b.temps = b.params*int32(len(s.Optimizer.AtOnce)+len(s.Optimizer.OneByOne)) + 1
	return b
}

// Len is how many IDs there are.
func (b *Buffers) Len() int { return int(b.batches*b.perBatch + b.states + b.temps) }

// Of says what an ID stands for.
func (b *Buffers) Of(id ID) Buffer {
	micro, i := int32(id)/b.perBatch, int32(id)%b.perBatch
	if micro >= b.batches {
		i = int32(id) - b.batches*b.perBatch
		if i < b.states {
			return Buffer{Kind: OfState, Index: i}
		}
		return Buffer{Kind: OfTemporary, Index: i - b.states}
	}
	if n := b.storages * b.levels; i >= n {
		i -= n
	} else {
		return Buffer{OfStorage, micro, i / b.storages, i % b.storages}
	}
	if i < b.grads {
		return Buffer{OfGradient, micro, 0, i}
	}
	if i -= b.grads; i < b.saves {
		return Buffer{OfReturned, micro, 0, i}
	}
	i -= b.saves
	return Buffer{OfRandomState, micro, i / b.regions, i % b.regions}
}

// The IDs of the micro batch that starts at base.
func (b *Buffers) storage(base ID, st graph.StorageID, level int32) ID {
	return base + ID(level*b.storages+int32(st))
}

func (b *Buffers) gradient(base ID, x int32) ID { return base + ID(b.storages*b.levels+x) }

func (b *Buffers) returned(base ID, save int32) ID {
	return base + ID(b.storages*b.levels+b.grads+save)
}

func (b *Buffers) random(base ID, region, level int32) ID {
	return base + ID(b.storages*b.levels+b.grads+b.saves+level*b.regions+region)
}

// state is tensor k of the optimizer's state for parameter i, temporary its tensor k of an update.
func (b *Buffers) state(k, i int) ID { return ID(b.batches*b.perBatch + int32(k)*b.params + int32(i)) }

// shared is the state that all parameters use together.
func (b *Buffers) shared() ID { return ID(b.batches*b.perBatch + b.states - 1) }

func (b *Buffers) temporary(k, i int) ID {
	return ID(b.batches*b.perBatch + b.states + int32(k)*b.params + int32(i))
}

// clone is the contiguous copy of a strided tensor that goes to the host.
func (b *Buffers) clone() ID { return ID(b.batches*b.perBatch + b.states + b.temps - 1) }

// Observer sees the events of a walk in the order in which a device would see them: kernels run one after the other, and
// Python frees a tensor as soon as nothing refers to it. The instant is the one after the event; the walk owns it and
// changes it when the observer returns. The first event allocates the first parameter.
type Observer interface {
	// Pass starts a pass of a step.
	Pass(p Pass, at *Instant)
	// Block enters a block of the graph's chain, forward or backward; a pass ends with the number that would come next.
	Block(number int32, at *Instant)
	Alloc(id ID, bytes int64, at *Instant)
	Free(id ID, bytes int64, at *Instant)
}

// alloc makes a buffer and counts it.
func (m *machine) alloc(id ID, bytes int64, aten string) {
	m.at.Bytes += bytes
	if m.at.Bytes > m.peak.Bytes {
		m.at.Aten = aten
		*m.peak = m.at
	}
	if m.observer != nil {
		m.at.Aten = aten
		m.observer.Alloc(id, bytes, &m.at)
	}
}

func (m *machine) free(id ID, bytes int64) {
	m.at.Bytes -= bytes
	if m.observer != nil {
		m.observer.Free(id, bytes, &m.at)
	}
}

// Observe walks training steps from the model's construction on and tells o what happens.
func Observe(s *Schedule, steps int, o Observer) error {
	m := newMachine(s)
	m.observer = o
	return m.legal(func() {
		m.construct()
		for range steps {
			m.step()
		}
	})
}
