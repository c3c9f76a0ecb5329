package exec

import (
	"encoding/json"
	"os"

	"ckptplan/internal/unit"
)

// torchResult is what the runner writes: a measurement, or why there is none.
type torchResult struct {
	Measurement
	Error *refusal `json:"error"`
}

type refusal struct {
	Kind         string        `json:"kind"`
	Message      string        `json:"message"`
	Traceback    string        `json:"traceback"`
	Need         unit.Bytes    `json:"need_bytes"`
	Requested    unit.Bytes    `json:"requested_bytes"`
	Allocated    unit.Bytes    `json:"allocated_bytes"`
	Reserved     unit.Bytes    `json:"reserved_bytes"`
	Free         unit.Bytes    `json:"free_bytes"`
	Total        unit.Bytes    `json:"total_bytes"`
	Observations []Observation `json:"observations"`
}

func readResult(path string, o TorchOptions) (*Measurement, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, &RunnerError{Text: "ended without a result"}
	}
	var r torchResult
	if err := json.Unmarshal(src, &r); err != nil {
		return nil, &RunnerError{Text: "wrote a result that cannot be read: " + err.Error()}
	}
	if r.Error != nil {
		return nil, r.Error.typed(o.Device)
	}
	if n := parameters(o); r.Model.MadeOf != "" && r.Model.Parameters != n {
		return nil, &OtherModelError{MadeOf: r.Model.MadeOf, Measured: r.Model.Parameters, Predicted: n}
	}
	if r.Model.MadeOf == "" || r.Peak.Tensor <= 0 || len(r.Phases) == 0 {
		return nil, &RunnerError{Text: "wrote a result without a measurement"}
	}
	return &r.Measurement, nil
}

func (r *refusal) typed(device string) error {
	switch r.Kind {
	case "no_torch", "no_transformers":
		return &EngineError{"torch", r.Message}
	case "no_device":
		return &DeviceError{Device: device, Text: r.Message}
	case "busy_device":
		return &DeviceError{Device: device, Text: r.Message, Need: r.Need, Free: r.Free, Total: r.Total}
	case "out_of_memory":
		return &MemoryError{Device: device, Requested: r.Requested, Allocated: r.Allocated, Reserved: r.Reserved, Free: r.Free, Total: r.Total}
	case "unsupported":
		return &UnsupportedError{"torch", r.Message}
	case "in_place", "recompute":
		return &RecomputeError{Text: r.Message, Causes: causes(r.Observations)}
	}
	return &RunnerError{Text: "failed: " + lastLine(firstLine(r.Message)), Log: keepLog(r.Traceback)}
}

func parameters(o TorchOptions) int64 {
	var n int64
	for _, p := range o.Graph.Params {
		n += p.Count
	}
	return n
}
