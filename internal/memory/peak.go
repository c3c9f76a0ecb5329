package memory

import "ckptplan/internal/model/graph"

// Phase is a part of a training step.
type Phase uint8

// The phases of a training step.
const (
	Forward Phase = iota
	Backward
	Optimizer
	Phases
)

func (p Phase) String() string { return [...]string{"forward", "backward", "optimizer"}[p] }

// Instant is a point of the timeline: how many bytes are alive, after which op of which phase.
type Instant struct {
	Bytes     int64
	Aten      string     // the ATen call
	Op        graph.OpID // the forward op, or the one whose gradient is made; None in the optimizer
	Phase     Phase
	Recompute bool // the op runs again inside backward
}

// StepResult is what one training step shows.
type StepResult struct {
	Peak           [Phases]Instant
	AfterForward   int64 // alive when forward has returned and the caller still holds the output
	BeforeBackward int64 // alive when backward starts
	AfterBackward  int64
	AfterStep      int64
	HostPeak       int64 // bytes in pinned host memory
}
