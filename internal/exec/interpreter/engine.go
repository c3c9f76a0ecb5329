// Package interpreter is the engine that runs the graph of a training step op by op on real values, on any gpu.Device: it
// keeps frames, checkpoints, autograd's nodes and gradients, offloads, draws and counts, and leaves the numbers to the
// device's kernels.
package interpreter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"ckptplan/internal/exec"
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/unit"
)

// Options say what is run, where and how.
type Options struct {
	// Schedule is the model's training step under a plan.
	Schedule *memory.Schedule
	// Open makes the device that a request runs on; it is closed when the run has ended.
	Open func() (gpu.Device, error)
	// Device is the one that was opened.
	Device gpu.Device
	// Engine is the name of the device's kind in measurements and errors: host.
	Engine string
	// Seed draws weights, data and dropout masks.
	Seed int64
	// Steps are timed after a first step, which creates the optimizer state; at least 1. Enough ends them early once they
	// have taken that long together; 0 means never.
	Steps  int
	Enough time.Duration
	// Timeout is for the whole run; 0 means none.
	Timeout time.Duration
	// Progress, if not nil, is called with the current stage.
	Progress func(stage string)
	// Fault is a checkpointing mistake to inject.
	Fault Fault
}

// engine runs the graph of a schedule op by op on real values. It takes no lifetimes from the simulator: a
// buffer lives while it has a holder, which is a local of the frame that made it, a node that saved it, a checkpoint that
// captured or cached it, or a gradient.
type engine struct {
	ctx      context.Context
	g        *graph.Graph
	schedule *memory.Schedule
	name     string
	device   gpu.Device
	seed     uint64
	fault    Fault

	types   []dtype.DType // by storage
	static  []*buffer     // by storage: parameters, buffers, inputs
	last    []graph.OpID  // by storage: the last op of forward that reads it
	late    map[graph.OpID][]graph.StorageID
	nodes   []*node       // by op: what autograd saved
	points  []*checkpoint // by region, of the forward pass that ran last
	top     *frame        // the forward pass's frame, while locals of it outlive it
	grads   []*gradient   // by parameter
	leaves  []*gradient   // gradients of leaves that are not parameters, until backward ends
	pending []*gradient   // by tensor: what waits in the engine's input buffers
	uses    []int         // by tensor: gradients that a leaf still waits for
	moment  [][]*buffer   // by parameter: AdamW's state
	steps   int           // optimizer steps done

	used             unit.Bytes // allocated on the device now, as requested
	onHost, hostPeak unit.Bytes // held by the host for a plan that offloads: now, and the most of a step

	offset uint64 // the generator's counter
	again  int    // how deep recomputes are nested
	seen   []exec.Observation

	mem  []byte        // of the last glance
	work gpu.Workspace // of the last glance

	phase  memory.Phase
	result *stepLevels
	loss   float64
}

// stepLevels is what one training step showed, in bytes as requested.
type stepLevels struct {
	peak           [memory.Phases]unit.Bytes
	at             [memory.Phases]string // the op at the peak
	afterForward   unit.Bytes
	beforeBackward unit.Bytes
	afterBackward  unit.Bytes
	afterStep      unit.Bytes
	host           unit.Bytes // peak of the host's memory
}

var _ exec.Engine = Options{}

// Run lowers the request's plan to its graph and trains for a few steps. Its errors are *MemoryError, which is a
// gpu.ErrOutOfMemory, *UnsupportedError, *TimeoutError, and the context's.
func (o Options) Run(ctx context.Context, r exec.Request) (m *exec.Measurement, err error) {
	if o.Schedule, err = memory.Lower(memory.Compile(r.Graph), r.Plan); err != nil {
		return nil, err
	}
	if o.Device, err = o.Open(); err != nil {
		return nil, err
	}
	defer func() { _ = o.Device.Close() }()
	timed, cancel := ctx, func() {}
	if o.Timeout > 0 {
		timed, cancel = context.WithTimeout(ctx, o.Timeout)
	}
	defer cancel()
	var stage string
	o.Progress = func(now string) {
		stage = now
		if r.Progress != nil {
			r.Progress(now)
		}
	}
	m, err = run(timed, o)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, &exec.TimeoutError{After: o.Timeout, At: stage}
	}
	return m, err
}

// run trains for a few steps and measures them.
func run(ctx context.Context, o Options) (*exec.Measurement, error) {
	e := newEngine(ctx, o)
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

func newEngine(ctx context.Context, o Options) *engine {
	g := o.Schedule.Program.Graph
	e := &engine{
		ctx: ctx, g: g, schedule: o.Schedule, name: o.Engine, device: o.Device, seed: uint64(o.Seed), fault: o.Fault,
		types: make([]dtype.DType, len(g.Storages)), static: make([]*buffer, len(g.Storages)), last: make([]graph.OpID, len(g.Storages)),
		late: map[graph.OpID][]graph.StorageID{}, grads: make([]*gradient, len(g.Params)), moment: make([][]*buffer, len(g.Params)),
		result: &stepLevels{},
	}
	for i := len(g.Tensors) - 1; i >= 0; i-- { // a storage's first tensor has its type
		e.types[g.Tensors[i].Storage] = g.Tensors[i].DType
	}
	for i := range g.Ops {
		for _, t := range g.Inputs(&g.Ops[i]) {
			e.last[g.Tensors[t].Storage] = graph.OpID(i)
		}
	}
	for i := range g.Storages {
		if s := &g.Storages[i]; s.Born != graph.None {
			e.late[s.Drop] = append(e.late[s.Drop], graph.StorageID(i))
		}
	}
	return e
}

// measurement is filled with what is known before the run.
func (e *engine) measurement() *exec.Measurement {
	m := &exec.Measurement{
		Engine: e.name, Device: e.device.Name(), Phases: map[string]exec.Level{},
		Environment: map[string]any{"go": runtime.Version(), "arch": runtime.GOARCH},
		Model:       exec.RunModel{MadeOf: "graph"},
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
func (r *stepLevels) show(m *exec.Measurement) {
	m.BeforeBackward = exec.Level{Tensor: r.beforeBackward}
	m.Peak = exec.Peak{}
	for ph, b := range r.peak {
		if b == 0 {
			continue
		}
		name := memory.Phase(ph).String()
		m.Phases[name] = exec.Level{Tensor: b}
		if b > m.Peak.Tensor {
			m.Peak = exec.Peak{Level: exec.Level{Tensor: b}, Phase: name, Op: r.at[ph]}
		}
	}
}

// step is one optimizer step: forward and backward of each micro-batch, then the optimizer. values is called when the
// gradients are complete.
func (e *engine) step(values func()) (r *stepLevels, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.err
		}
	}()
	if err := e.runnable(); err != nil {
		return nil, err
	}
	e.result = &stepLevels{}
	if e.steps == 0 && e.used == 0 {
		e.begin(memory.Forward)
		e.initialise()
	}
	e.hostPeak = e.onHost
	for range e.g.Step.MicroBatches {
		e.begin(memory.Forward)
		e.forward()
		e.begin(memory.Backward)
		e.backward()
	}
	if values != nil {
		values()
	}
	e.optimize()
	e.result.host = e.hostPeak
	e.result.afterStep = e.used
	return e.result, nil
}

// goOn ends the step if its context has ended, so that a cancelled run stops after at most one op or weight.
func (e *engine) goOn() {
	if err := e.ctx.Err(); err != nil {
		panic(failure{err})
	}
}

// begin starts a phase; the bytes alive then count towards its peak.
func (e *engine) begin(p memory.Phase) {
	e.phase = p
	e.note("start")
}

// note is called after every allocation.
func (e *engine) note(name string) {
	if used := e.used; used > e.result.peak[e.phase] {
		e.result.peak[e.phase], e.result.at[e.phase] = used, name
	}
}

// runnable refuses a graph with an op that has no kernel.
func (e *engine) runnable() error {
	if missing := missing(e.g, e.device); len(missing) > 0 {
		return &exec.UnsupportedError{Engine: e.name, Text: fmt.Sprintf("arch %s uses %s, for which it has no kernel", e.g.Step.Class, exec.Some(missing))}
	}
	if o := e.schedule.Optimizer; o.Passes > 0 && rules[o.Rule] == nil {
		return &exec.UnsupportedError{Engine: e.name, Text: fmt.Sprintf("it does not run optimizer %s", o.Name)}
	}
	return nil
}

// outOfMemory is the answer of a device that is full.
func (e *engine) outOfMemory(name string, err error) error {
	oom, ok := err.(*gpu.OutOfMemoryError)
	if !ok {
		return err
	}
	_, total, _ := e.device.Memory()
	return &memoryError{
		MemoryError: &exec.MemoryError{Device: e.device.Name(), Requested: oom.Wanted, Allocated: e.used, Reserved: e.used, Free: oom.Free, Total: total},
		cause:       oom, op: name, phase: e.phase,
	}
}

// memoryError is a *MemoryError and a gpu.ErrOutOfMemory, and says where it was.
type memoryError struct {
	*exec.MemoryError
	cause *gpu.OutOfMemoryError
	op    string
	phase memory.Phase
}

func (e *memoryError) Error() string {
	return fmt.Sprintf("%s (%s, at %s)", e.MemoryError.Error(), e.phase, e.op)
}

func (e *memoryError) Unwrap() []error { return []error{e.MemoryError, e.cause} }
