package exec

import (
	"context"

	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// Engine runs training steps on one device and measures them. How many steps it runs, and on what, is settled when it is
// made.
type Engine interface {
	Run(ctx context.Context, r Request) (*Measurement, error)
}

// Request is a training step under a plan.
type Request struct {
	Graph *graph.Graph
	Plan  *plan.Plan
	// Need is the device memory that the run is predicted to take.
	Need unit.Bytes
	// Progress, if not nil, is called with the current stage, possibly from another goroutine.
	Progress func(stage string)
}
