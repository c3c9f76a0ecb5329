package model

import "strings"

// What is checkpointed changes the graph itself in two ways: adapters need an input that requires grad, and T5 tells a
// tensor of zeros to take one where the class checkpoints its layers itself.

// DependsOnCheckpoint is true if another Checkpoint makes another graph.
func (s *Spec) DependsOnCheckpoint() bool { return s.Train.LoRA != nil || s.DecoderL > 0 }

// inputGrad: users of LoRA turn input gradients on together with any checkpointing.
func (s *Spec) inputGrad() bool { return s.Checkpoint != "" && s.Checkpoint != "none" }

// wholeLayers: some region is a layer or more of them, which is what gradient_checkpointing_enable does.
func (s *Spec) wholeLayers() bool {
	return s.inputGrad() && s.Checkpoint != "offload" && !strings.HasPrefix(s.Checkpoint, "selective")
}
