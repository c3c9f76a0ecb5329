package torch

import (
	"encoding/json"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// torchJob is what the runner reads.
type torchJob struct {
	Device string          `json:"device"`
	Spec   *spec.Spec      `json:"spec"`
	Module *class.Module   `json:"module,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
	Nodes  []plan.Resolved `json:"nodes"`
	Plain  bool            `json:"plain,omitempty"`
	Warmup int             `json:"warmup"`
	Steps  int             `json:"steps"`
	Enough int64           `json:"enough_ns,omitempty"`
	Seed   int64           `json:"seed"`
	Values bool            `json:"values"`
	Need   unit.Bytes      `json:"need_bytes,omitempty"`
	Force  bool            `json:"force,omitempty"`
	Limit  float64         `json:"limit,omitempty"`
	Plant  string          `json:"plant,omitempty"`
}

func newJob(o Options) (*torchJob, error) {
	spec := build.SpecOf(o.Graph)
	j := &torchJob{
		Device: o.Device, Spec: spec, Module: class.ModuleOf(spec), Config: o.Config, Plain: o.Plain, Warmup: max(1, o.Warmup), Steps: o.Steps, Enough: o.Enough.Nanoseconds(), Seed: o.Seed, Values: o.Values,
		Need: o.Need, Force: o.Force, Limit: o.Limit, Plant: o.plant, Nodes: []plan.Resolved{},
	}
	if o.Plan == nil {
		return j, nil
	}
	nodes, err := plan.Resolve(o.Graph, o.Plan.Nodes)
	if err != nil {
		return nil, err
	}
	j.Nodes = append(j.Nodes, nodes...)
	return j, nil
}
