package build

// Options are what the graph of a spec depends on beside the spec.
type Options struct {
	// CPU asks for the ops that PyTorch dispatches on the CPU, which has its own for dropout and attention, and for the
	// random state that lies beside the step's tensors there; otherwise the ops are a CUDA device's.
	CPU bool
	// Checkpoint is what the plan checkpoints: "none" or empty, "selective" (parts of layers) or "full" (whole layers).
	// See plan.Plan.Kind and Spec.CheckpointKinds.
	Checkpoint string
}

// inputGrad: users of LoRA turn input gradients on together with any checkpointing.
func (o Options) inputGrad() bool { return o.Checkpoint != "" && o.Checkpoint != "none" }

// WholeLayers: some region is a layer or more of them, which is what gradient_checkpointing_enable does.
func (o Options) WholeLayers() bool { return o.Checkpoint == "full" }
