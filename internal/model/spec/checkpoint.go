package spec

// What is checkpointed changes the graph itself in two ways: adapters need an input that requires grad, and T5 tells a
// tensor of zeros to take one where the class checkpoints its layers itself.

// DependsOnCheckpoint is true if another Options.Checkpoint makes another graph.
func (s *Spec) DependsOnCheckpoint() bool { return len(s.CheckpointKinds()) > 1 }

// CheckpointKinds are the kinds of plan (none, selective, full; see plan.Plan.Kind) whose graphs differ. A kind that is not
// among them has the graph of the last.
func (s *Spec) CheckpointKinds() []string {
	switch {
	case s.DecoderL > 0:
		return []string{"none", "selective", "full"}
	case s.Train.LoRA != nil:
		return []string{"none", "full"}
	}
	return []string{"none"}
}
