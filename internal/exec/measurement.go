// Package exec runs a training step under a plan and measures it: Measurement is what an engine saw, Comparison
// compares it with the prediction of memory.Simulate. An engine knows regions, not strategies.
package exec

import (
	"encoding/json"
	"math"
	"os"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"ckptplan/internal/unit"
)

// Measurement is the result of one run of a training step: peaks of a step with optimizer state, times, and values.
// A value that the engine cannot see is 0, and absent in JSON.
type Measurement struct {
	Engine      string         `json:"engine"`
	Device      string         `json:"device"`
	Environment map[string]any `json:"environment,omitempty"`
	Model       RunModel       `json:"model"`
	Peak        Peak           `json:"peak"`
	// Phases are the peaks of forward, backward and optimizer.
	Phases         map[string]Level `json:"phases"`
	BeforeBackward Level            `json:"before_backward"`
	// StepTimes are nanoseconds of single steps after warm-up.
	StepTimes []int64 `json:"step_ns,omitempty"`
	// Retries counts how often the caching allocator had to give its cache back and try again.
	Retries int `json:"allocation_retries,omitempty"`
	// Loss, Gradients and Observations are of a first step from the seed.
	Loss         float64       `json:"loss,omitempty"`
	Gradients    []Gradient    `json:"gradients,omitempty"`
	Observations []Observation `json:"observations,omitempty"`
}

// RunModel is the model that was run.
type RunModel struct {
	MadeOf     string `json:"made_of"`
	Parameters int64  `json:"parameters"`
	Trainable  int64  `json:"trainable_parameters"`
}

// Level is an amount of memory in the terms that can be measured.
type Level struct {
	// Tensor is the live storages as requested; on CUDA with the workspaces that libraries take from the allocator.
	Tensor unit.Bytes `json:"tensor_bytes"`
	// Allocated is in the caching allocator's blocks, Reserved in its segments, DeviceTotal what the driver counts.
	Allocated   unit.Bytes `json:"allocated_bytes,omitempty"`
	Reserved    unit.Bytes `json:"reserved_bytes,omitempty"`
	DeviceTotal unit.Bytes `json:"device_bytes,omitempty"`
}

// Peak is the highest level and where it was.
type Peak struct {
	Level
	Phase string `json:"phase"`
	Op    string `json:"op,omitempty"`
}

// Gradient is one parameter's gradient in numbers that two processes can compare: the hash of its bytes, its norm, and
// its product with a fixed vector of signs.
type Gradient struct {
	Name      string  `json:"name"`
	SHA256    string  `json:"sha256"`
	Norm      float64 `json:"norm"`
	SignedSum float64 `json:"signed_sum"`
}

// Observation is a difference between a region's forward and its recompute: random state, input or precision.
type Observation struct {
	Region  string `json:"region"`
	Differs string `json:"differs"`
}

// Interval is a mean with the half width of its 95 % confidence interval.
type Interval struct {
	Mean float64 `json:"mean_ns"`
	Half float64 `json:"half_width_ns"`
	N    int     `json:"steps"`
}

// StepTime is the mean of the timed steps, with Student's t interval; false without a timed step. The interval of one
// step is unknown (NaN).
func (m *Measurement) StepTime() (Interval, bool) {
	n := len(m.StepTimes)
	if n == 0 {
		return Interval{}, false
	}
	xs := make([]float64, n)
	for i, t := range m.StepTimes {
		xs[i] = float64(t)
	}
	if n == 1 {
		return Interval{Mean: xs[0], Half: math.NaN(), N: 1}, true
	}
	mean, dev := stat.MeanStdDev(xs, nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	return Interval{Mean: mean, Half: t * stat.StdErr(dev, float64(n)), N: n}, true
}

// Append adds v to a file of measurements, one JSON value a line; the file is created if it does not exist. If a full disk
// cuts a write short, it is undone, so that every line of the file is complete.
func Append(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	before, unknown := f.Stat()
	if _, err := f.Write(append(line, '\n')); err != nil {
		if unknown == nil && before.Mode().IsRegular() {
			_ = f.Truncate(before.Size())
		}
		_ = f.Close()
		return err
	}
	return f.Close()
}
