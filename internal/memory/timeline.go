package memory

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// Timeline is what a schedule's second training step shows, the steady state: optimizer state exists. That state is all
// that the first step leaves behind, so the second is walked without the first; see FirstStep.
type Timeline struct {
	Second StepResult
	// Peak is the second step's highest instant.
	Peak Instant
	// Parameters, Gradients and Optimizer stay between steps: weights; gradients of all trained parameters;
	// the optimizer's state. Inputs are token ids, labels, pixels and buffers.
	Parameters, Gradients, Optimizer, Inputs unit.Bytes
	// Times of the second step; zero without a data sheet.
	Times Times

	schedule *Schedule
}

// Simulate walks a training step of a schedule with the optimizer state that the step before it made. sheet gives the times
// of its ops; it may be nil.
func Simulate(s *Schedule, sheet *gpu.Sheet) (*Timeline, error) {
	tl, err := walked(s, sheet, nil)
	return tl, err
}

// walked walks the second step; watch (or nil) gives its observer.
func walked(s *Schedule, sheet *gpu.Sheet, watch func(*machine) Observer) (*Timeline, error) {
	m := newMachine(s)
	if sheet != nil {
		m.cost = s.Program.costsOn(sheet)
	}
	tl := &Timeline{schedule: s}
	if watch != nil {
		m.observer = watch(m)
	}
	err := m.legal(func() {
		m.construct()
		tl.Inputs = unit.Bytes(m.at.Bytes)
		m.addState()
		tl.Optimizer = unit.Bytes(m.at.Bytes) - tl.Inputs
		m.res = &tl.Second
		m.step()
	})
	if err != nil {
		return nil, err
	}
	for _, pk := range tl.Second.Peak {
		if pk.Bytes > tl.Peak.Bytes {
			tl.Peak = pk
		}
	}
	for _, p := range m.g.Params {
		tl.Parameters += unit.Bytes(p.Bytes)
		if p.Trained {
			tl.Gradients += unit.Bytes(p.Bytes)
		}
	}
	tl.Inputs -= tl.Parameters
	tl.Times = m.time
	return tl, nil
}

// FirstStep walks the step before: optimizer state appears at its end.
func (t *Timeline) FirstStep() StepResult {
	m := newMachine(t.schedule)
	m.construct()
	m.res = &StepResult{}
	m.step()
	return *m.res
}

// Judge lowers a plan and simulates it.
func Judge(p *Program, pl *plan.Plan, sheet *gpu.Sheet) (*Timeline, error) {
	s, err := Lower(p, pl)
	if err != nil {
		return nil, err
	}
	return Simulate(s, sheet)
}

// legal walks; a broken invariant is an error, since a schedule can come from a file.
func (m *machine) legal(walk func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if v, ok := r.(invariant); ok {
				err = fmt.Errorf("the schedule is not legal: %s", string(v))
				return
			}
			panic(r)
		}
	}()
	walk()
	return nil
}

// invariant is the panic of a walk that frees a storage that is not alive.
type invariant string

// Block labels where an instant is: "layers.31", "head"; empty in the optimizer.
func (t *Timeline) Block(at Instant) string {
	if at.Op < 0 {
		return ""
	}
	g := t.schedule.Program.Graph
	return g.Blocks[g.Ops[at.Op].Block].Label
}

// Graph is what was simulated.
func (t *Timeline) Graph() *graph.Graph { return t.schedule.Program.Graph }
