package torch

import (
	"encoding/json"
	"os"

	"ckptplan/internal/exec"
	"ckptplan/internal/unit"
)

// torchResult is what the runner writes: a measurement, or why there is none.
type torchResult struct {
	exec.Measurement
	Error *refusal `json:"error"`
}

type refusal struct {
	Kind         string             `json:"kind"`
	Message      string             `json:"message"`
	Traceback    string             `json:"traceback"`
	Need         unit.Bytes         `json:"need_bytes"`
	Requested    unit.Bytes         `json:"requested_bytes"`
	Allocated    unit.Bytes         `json:"allocated_bytes"`
	Reserved     unit.Bytes         `json:"reserved_bytes"`
	Free         unit.Bytes         `json:"free_bytes"`
	Total        unit.Bytes         `json:"total_bytes"`
	Observations []exec.Observation `json:"observations"`
}

func readResult(path string, o Options) (*exec.Measurement, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, &exec.RunnerError{Text: "ended without a result"}
	}
	var r torchResult
	if err := json.Unmarshal(src, &r); err != nil {
		return nil, &exec.RunnerError{Text: "wrote a result that cannot be read: " + err.Error()}
	}
	if r.Error != nil {
		return nil, r.Error.typed(o.Device)
	}
	if n := parameters(o); r.Model.MadeOf != "" && r.Model.Parameters != n {
		return nil, &exec.OtherModelError{MadeOf: r.Model.MadeOf, Measured: r.Model.Parameters, Predicted: n}
	}
	if r.Model.MadeOf == "" || r.Peak.Tensor <= 0 || len(r.Phases) == 0 {
		return nil, &exec.RunnerError{Text: "wrote a result without a measurement"}
	}
	return &r.Measurement, nil
}

func (r *refusal) typed(device string) error {
	switch r.Kind {
	case "no_torch", "no_transformers":
		return &exec.EngineError{Engine: "torch", Text: r.Message}
	case "no_device":
		return &exec.DeviceError{Device: device, Text: r.Message}
	case "busy_device":
		return &exec.DeviceError{Device: device, Text: r.Message, Need: r.Need, Free: r.Free, Total: r.Total}
	case "out_of_memory":
		return &exec.MemoryError{Device: device, Requested: r.Requested, Allocated: r.Allocated, Reserved: r.Reserved, Free: r.Free, Total: r.Total}
	case "unsupported":
		return &exec.UnsupportedError{Engine: "torch", Text: r.Message}
	case "in_place", "recompute":
		return &exec.RecomputeError{Text: r.Message, Causes: exec.Causes(r.Observations)}
	}
	return &exec.RunnerError{Text: "failed: " + exec.LastLine(exec.FirstLine(r.Message)), Log: keepLog(r.Traceback)}
}

func parameters(o Options) int64 {
	var n int64
	for _, p := range o.Graph.Params {
		n += p.Count
	}
	return n
}
