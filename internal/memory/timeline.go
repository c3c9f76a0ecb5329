package memory

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// Timeline is what a schedule's second training step shows, the steady state: optimizer state exists. It is all that the
// first step leaves behind, so the second is walked without the first; see FirstStep.
type Timeline struct {
	Second StepResult
	// Peak is the second step's highest instant.
	Peak Instant
	// Parameters, Gradients and Optimizer are what stays between steps: weights; gradients of all trained parameters;
	// the optimizer's state. Inputs are token ids, labels, pixels and buffers.
	Parameters, Gradients, Optimizer, Inputs unit.Bytes
	// Times of the second step; zero without a data sheet.
	Times Times

	schedule *Schedule
}

// Simulate walks a training step of a schedule with the optimizer state that the step before it made. sheet prices its ops in time; it may be nil.
func Simulate(s *Schedule, sheet *gpu.Sheet) (*Timeline, error) {
	m := newMachine(s)
	if sheet != nil {
		m.cost = s.Program.costsOn(sheet)
	}
	tl := &Timeline{schedule: s}
	if err := m.settled(tl); err != nil {
		return nil, err
	}
	for _, p := range m.g.Params {
		tl.Parameters += unit.Bytes(p.Bytes)
		if p.Trained {
			tl.Gradients += unit.Bytes(p.Bytes)
		}
	}
	tl.Inputs = unit.Bytes(m.p.static) - tl.Parameters
	if m.state != nil {
		tl.Optimizer = unit.Bytes(m.state.bytes)
	}
	tl.Times = m.time
	return tl, nil
}

// FirstStep walks the step before: optimizer state appears at its end.
func (t *Timeline) FirstStep() StepResult {
	var r StepResult
	m := newMachine(t.schedule)
	m.res = &r
	m.step()
	return r
}

// Judge lowers a plan and simulates it.
func Judge(p *Program, pl *plan.Plan, sheet *gpu.Sheet) (*Timeline, error) {
	s, err := Lower(p, pl)
	if err != nil {
		return nil, err
	}
	return Simulate(s, sheet)
}

// settled runs the second step; a broken invariant of the walk is an error, since a schedule can come from a file.
func (m *machine) settled(tl *Timeline) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if v, ok := r.(invariant); ok {
				err = fmt.Errorf("the schedule is not legal: %s", string(v))
				return
			}
			panic(r)
		}
	}()
	m.settle()
	m.res = &tl.Second
	m.step()
	for _, pk := range tl.Second.Peak {
		if pk.Bytes > tl.Peak.Bytes {
			tl.Peak = pk
		}
	}
	return nil
}

// invariant is the panic of a walk that frees what is not there.
type invariant string

// step is one optimizer step: forward and backward of each micro-batch, then the optimizer. Micro-batches after the
// second are like the second (gradients exist already): they are not walked, only their time is counted.
func (m *machine) step() {
	n := m.g.Step.MicroBatches
	for range min(n, 2) {
		before := m.time
		m.forward()
		m.backward()
		if n > 2 && before != (Times{}) {
			m.time = m.time.plus(m.time.minus(before).times(int64(n - 2)))
		}
	}
	m.optimizer(m.g.Step.Optimizer)
}

// Block labels where an instant is: "layers.31", "head"; empty in the optimizer.
func (t *Timeline) Block(at Instant) string {
	if at.Op < 0 {
		return ""
	}
	g := t.schedule.Program.Graph
	return g.Blocks[g.Ops[at.Op].Block].Label
}

// Graph is what was simulated.
func (t *Timeline) Graph() *model.Graph { return t.schedule.Program.Graph }
