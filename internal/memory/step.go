package memory

// Run walks two training steps of a schedule, the second of which has optimizer state, and gives both.
func Run(s *Schedule) [2]StepResult {
	m := newMachine(s)
	var out [2]StepResult
	for i := range out {
		m.res = &out[i]
		m.step()
	}
	return out
}

// step is one optimizer step: forward and backward of each micro-batch, then the optimizer.
func (m *machine) step() {
	t := &m.g.Spec.Train
	for range max(1, t.GradAccum) {
		m.forward()
		m.backward()
	}
	m.optimizer(t.Optimizer)
}
