package exec

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// HostOptions say what the host engine runs and how.
type HostOptions struct {
	// Schedule is the model's training step under a plan.
	Schedule *memory.Schedule
	// Capacity is the device's memory; 0 is without limit.
	Capacity unit.Bytes
	// Seed draws weights, data and dropout masks.
	Seed int64
	// Steps are timed after a first step, with which optimizer state comes to exist; at least 1. Enough ends them before,
	// once they took so long together; 0 is never.
	Steps  int
	Enough time.Duration
	// Progress is called with what the run is at; nil is nobody.
	Progress func(stage string)
	// Fault is a mistake of checkpointing to put in.
	Fault HostFault
}

// hostEngine runs the graph of a schedule op by op on real values. It shares no lifetime with the simulator: a buffer
// lives while something holds it, which is a local of the frame that made it, a node that saved it, a checkpoint that
// captured or cached it, or a gradient.
type hostEngine struct {
	ctx      context.Context
	g        *model.Graph
	schedule *memory.Schedule
	device   *gpu.Host
	pinned   *gpu.Host // the host's memory, for what a plan offloads
	seed     uint64
	fault    HostFault

	types   []model.DType // by storage
	static  []*hostBuffer // by storage: parameters, buffers, inputs
	last    []model.OpID  // by storage: the last op of forward that reads it
	late    map[model.OpID][]model.StorageID
	nodes   []*hostNode       // by op: what autograd saved
	points  []*hostCheckpoint // by region, of the forward pass that ran last
	top     *hostFrame        // the forward pass's frame, while locals of it outlive it
	grads   []*hostGrad       // by parameter
	leaves  []*hostGrad       // gradients of leaves that are no parameters, until backward ends
	pending []*hostGrad       // by tensor: what waits in the engine's input buffers
	uses    []int             // by tensor: gradients that a leaf still waits for
	moment  [][]*hostBuffer   // by parameter: AdamW's state
	steps   int               // optimizer steps done

	offset uint64 // the generator's counter
	again  int    // how deep recomputes are nested
	seen   []Observation

	phase  memory.Phase
	result *hostStep
	loss   float64
}

// hostStep is what one training step showed, in bytes as requested.
type hostStep struct {
	peak           [memory.Phases]unit.Bytes
	at             [memory.Phases]string // the op at the peak
	afterForward   unit.Bytes
	beforeBackward unit.Bytes
	afterBackward  unit.Bytes
	afterStep      unit.Bytes
	host           unit.Bytes // peak of the host's memory
}

// RunHost trains for a few steps in Go on a reference device and measures them. Its errors are *MemoryError, which is a
// gpu.ErrOutOfMemory, *UnsupportedError, and the context's.
func RunHost(ctx context.Context, o HostOptions) (*Measurement, error) {
	e := newHostEngine(ctx, o)
	defer func() { _ = e.device.Close() }()
	m := e.measurement()
	steps, timed := max(o.Steps, 1)+1, time.Duration(0)
	for i := range steps {
		if o.Enough > 0 && timed >= o.Enough {
			break
		}
		purpose := "timed"
		var values func()
		if i == 0 {
			purpose = "gradients"
			values = func() { m.Gradients, m.Loss, m.Observations = e.gradients(), e.loss, e.seen }
		}
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("step %d of %d (%s)", i+1, steps, purpose))
		}
		start := time.Now()
		r, err := e.step(values)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			took := time.Since(start)
			timed += took
			m.StepTimes = append(m.StepTimes, took.Nanoseconds())
			r.show(m)
		}
	}
	return m, nil
}

func newHostEngine(ctx context.Context, o HostOptions) *hostEngine {
	g := o.Schedule.Program.Graph
	e := &hostEngine{
		ctx: ctx, g: g, schedule: o.Schedule, device: gpu.NewHost(o.Capacity), pinned: gpu.NewHost(0), seed: uint64(o.Seed), fault: o.Fault,
		types: make([]model.DType, len(g.Storages)), static: make([]*hostBuffer, len(g.Storages)), last: make([]model.OpID, len(g.Storages)),
		late: map[model.OpID][]model.StorageID{}, grads: make([]*hostGrad, len(g.Params)), moment: make([][]*hostBuffer, len(g.Params)),
		result: &hostStep{},
	}
	for i := len(g.Tensors) - 1; i >= 0; i-- { // a storage's first tensor has its type
		e.types[g.Tensors[i].Storage] = g.Tensors[i].DType
	}
	for i := range g.Ops {
		for _, t := range g.Inputs(&g.Ops[i]) {
			e.last[g.Tensors[t].Storage] = model.OpID(i)
		}
	}
	for i := range g.Storages {
		if s := &g.Storages[i]; s.Born != model.None {
			e.late[s.Drop] = append(e.late[s.Drop], model.StorageID(i))
		}
	}
	return e
}

// measurement is what is known before anything has run.
func (e *hostEngine) measurement() *Measurement {
	m := &Measurement{
		Engine: "host", Device: e.device.Name(), Phases: map[string]Level{},
		Environment: map[string]any{"go": runtime.Version(), "arch": runtime.GOARCH},
		Model:       RunModel{MadeOf: "graph"},
	}
	for _, p := range e.g.Params {
		m.Model.Parameters += p.Count
		if p.Trained {
			m.Model.Trainable += p.Count
		}
	}
	return m
}

// show keeps the step's levels. A phase that allocates nothing has none.
func (r *hostStep) show(m *Measurement) {
	m.BeforeBackward = Level{Tensor: r.beforeBackward}
	m.Peak = Peak{}
	for ph, b := range r.peak {
		if b == 0 {
			continue
		}
		name := memory.Phase(ph).String()
		m.Phases[name] = Level{Tensor: b}
		if b > m.Peak.Tensor {
			m.Peak = Peak{Level: Level{Tensor: b}, Phase: name, Op: r.at[ph]}
		}
	}
}

// step is one optimizer step: forward and backward of each micro-batch, then the optimizer. values is called when the
// gradients are complete.
func (e *hostEngine) step(values func()) (r *hostStep, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(hostFailure)
			if !ok {
				panic(p)
			}
			err = f.err
		}
	}()
	if err := e.runnable(); err != nil {
		return nil, err
	}
	e.result = &hostStep{}
	if e.steps == 0 && e.device.Used() == 0 {
		e.begin(memory.Forward)
		e.initialise()
	}
	e.pinned.ResetHigh()
	for range e.g.Step.MicroBatches {
		e.begin(memory.Forward)
		e.forward()
		e.begin(memory.Backward)
		e.backward()
	}
	if values != nil {
		values()
	}
	e.optimize(e.g.Step.Optimizer)
	e.result.host = e.pinned.High()
	e.result.afterStep = e.device.Used()
	return e.result, nil
}

// goOn ends the step if its context has ended: whoever waits is not kept for longer than an op or a weight takes.
func (e *hostEngine) goOn() {
	if err := e.ctx.Err(); err != nil {
		panic(hostFailure{err})
	}
}

// begin starts a phase; what is alive counts for its peak.
func (e *hostEngine) begin(p memory.Phase) {
	e.phase = p
	e.note("start")
}

// note is called after every allocation.
func (e *hostEngine) note(name string) {
	if used := e.device.Used(); used > e.result.peak[e.phase] {
		e.result.peak[e.phase], e.result.at[e.phase] = used, name
	}
}

// runnable refuses a graph with an op that has no kernel.
func (e *hostEngine) runnable() error {
	if missing := hostMissing(e.g); len(missing) > 0 {
		return &UnsupportedError{"host", fmt.Sprintf("arch %s uses %s, for which it has no kernel", e.g.Step.Class, some(missing))}
	}
	return nil
}

// outOfMemory is the answer of a device that is full.
func (e *hostEngine) outOfMemory(name string, err error) error {
	oom, ok := err.(*gpu.OutOfMemoryError)
	if !ok {
		return err
	}
	_, total, _ := e.device.Memory()
	return &hostMemoryError{
		MemoryError: &MemoryError{Device: e.device.Name(), Requested: oom.Wanted, Allocated: e.device.Used(), Reserved: e.device.Used(), Free: oom.Free, Total: total},
		cause:       oom, op: name, phase: e.phase,
	}
}

// hostMemoryError is a *MemoryError and a gpu.ErrOutOfMemory, and says where it was.
type hostMemoryError struct {
	*MemoryError
	cause *gpu.OutOfMemoryError
	op    string
	phase memory.Phase
}

func (e *hostMemoryError) Error() string {
	return fmt.Sprintf("%s (%s, at %s)", e.MemoryError.Error(), e.phase, e.op)
}

func (e *hostMemoryError) Unwrap() []error { return []error{e.MemoryError, e.cause} }
