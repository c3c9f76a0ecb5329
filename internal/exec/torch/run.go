// Package torch is the engine that runs PyTorch in a process of its own, on tensors without storage (meta), on the CPU
// or on a CUDA device. The process runs the Python files of runner/, which travel in the binary.
package torch

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"time"

	"ckptplan/internal/exec"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

//go:embed runner/*.py
var runner embed.FS

// Options say what the torch engine runs and how.
type Options struct {
	// Python is an interpreter that can import torch.
	Python string
	// Device is meta, cpu or cuda:N. There is no fallback to another.
	Device string
	// Graph is the model and its training step; its spec is built with PyTorch.
	Graph *graph.Graph
	// Config is the config.json that the spec came from, or nil.
	Config []byte
	Plan   *plan.Plan
	// Plain builds the model in plain PyTorch even where transformers is installed.
	Plain bool
	// Warmup steps come before the measured one (at least one: optimizer state exists then), Steps are timed after it.
	Warmup, Steps int
	Seed          int64
	// Values adds a step whose loss and gradients are reported.
	Values bool
	// Timeout is for the whole run; 0 means none. Enough ends the timed steps on the CPU early once they have taken that
	// long together; 0 means never.
	Timeout, Enough time.Duration
	// Progress, if not nil, is called with the current stage, from another goroutine.
	Progress func(stage string)
	// Need is the CUDA memory that the run is predicted to take. Unless Force is set, a need above the free memory is
	// refused.
	Need  unit.Bytes
	Force bool
	// Limit is the share of a CUDA device's memory that the process may take, above 0 to 1; 0 means all.
	Limit float64

	plant string // a mistake to inject, for tests
}

var _ exec.Engine = Options{}

// Run makes Options an exec.Engine: the request's step in place of the options' own.
func (o Options) Run(ctx context.Context, r exec.Request) (*exec.Measurement, error) {
	o.Graph, o.Plan, o.Need, o.Progress = r.Graph, r.Plan, r.Need, r.Progress
	return Run(ctx, o)
}

// Run measures a training step under a plan with PyTorch, in a process of its own. Its errors are *EngineError,
// *DeviceError, *MemoryError, *UnsupportedError, *RecomputeError, *OtherModelError, *TimeoutError, *RunnerError, and
// the context's.
func Run(ctx context.Context, o Options) (*exec.Measurement, error) {
	dir, err := os.MkdirTemp("", "ckptplan-torch-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpack(dir); err != nil {
		return nil, err
	}
	job, err := newJob(o)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	jobPath, resultPath := filepath.Join(dir, "job.json"), filepath.Join(dir, "result.json")
	if err := os.WriteFile(jobPath, text, 0o600); err != nil {
		return nil, err
	}
	if err := start(ctx, o, filepath.Join(dir, "run.py"), jobPath, resultPath); err != nil {
		return nil, err
	}
	return readResult(resultPath, o)
}

func unpack(dir string) error {
	files, err := fs.Glob(runner, "runner/*.py")
	if err != nil {
		return err
	}
	for _, f := range files {
		src, err := runner.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), src, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// start runs the process to its end. To end it early it is asked to stop, so that it releases the device, and
// killed after stopGrace.
func start(ctx context.Context, o Options, args ...string) error {
	const stopGrace = 10 * time.Second
	run := ctx
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	cmd := osexec.CommandContext(run, o.Python, append([]string{"-B"}, args...)...)
	defer inGroup(cmd)()
	cmd.WaitDelay = stopGrace
	out := runnerOutput{progress: o.Progress}
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case run.Err() != nil:
		return &exec.TimeoutError{After: o.Timeout, At: out.stage}
	case err == nil:
		if _, missing := os.Stat(args[len(args)-1]); missing != nil && out.stage == "" {
			return &exec.EngineError{Engine: "torch", Text: fmt.Sprintf("%s ended without running anything: it is not a Python", o.Python)}
		}
		return nil
	}
	var exit *osexec.ExitError
	if !errors.As(err, &exit) {
		return &exec.EngineError{Engine: "torch", Text: fmt.Sprintf("%s cannot be started: %s", o.Python, reason(err))}
	}
	if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		return died(fmt.Sprintf("was killed by signal %d (%s)%s%s", int(st.Signal()), st.Signal(), out.at(), outOfHostMemory(st.Signal())), out.String())
	}
	return died(fmt.Sprintf("ended with status %d%s", exit.ExitCode(), out.at()), out.String())
}

func died(text, output string) *exec.RunnerError {
	return &exec.RunnerError{Text: text, Output: output, Log: keepLog(output)}
}

func outOfHostMemory(s syscall.Signal) string {
	if s == syscall.SIGKILL {
		return ": the system kills so when its memory is used up"
	}
	return ""
}

// reason is an error of starting a process without the path, which the caller already names.
func reason(err error) string {
	var path *fs.PathError
	var name *osexec.Error
	switch {
	case errors.As(err, &name):
		return name.Err.Error()
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return err.Error()
}
