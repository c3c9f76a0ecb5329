package torch

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ckptplan/internal/exec"
	"ckptplan/internal/plan"
)

const droppingGPT2 = "arch: gpt2\nL: 2\nS: 32\nH: 64\nB: 2\nheads: 4\nvocab: 100\nmax_positions: 32\n"

// TestTorchValues: a plan changes neither loss nor gradients, with dropout in every layer; each classic mistake does,
// and is named.
func TestTorchValues(t *testing.T) {
	py := torchPython(t)
	g := small(t, droppingGPT2)
	run := func(strategy, plant string) (*exec.Measurement, error) {
		return Run(t.Context(), Options{Python: py, Device: "cpu", Graph: g, Plan: named(t, g, strategy), Values: true, Seed: 7, plant: plant})
	}
	baseline, err := run("none", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ strategy, plant, cause string }{
		{"full", "", ""},
		{"selective", "", ""},
		{"nested-2", "", ""},
		{"full", "random state", "random state is not restored"},
		{"full", "in place", "in place"},
		{"full", "precision", "another precision"},
	} {
		t.Run(c.strategy+" "+c.plant, func(t *testing.T) {
			m, err := run(c.strategy, c.plant)
			if err != nil {
				var re *exec.RecomputeError // PyTorch noticed by itself
				if c.cause == "" || !errors.As(err, &re) || !strings.Contains(err.Error(), c.cause) {
					t.Fatal(err)
				}
				return
			}
			v := exec.CompareValues(baseline, m, 24)
			if c.cause == "" {
				if !v.Equal || len(v.Causes) > 0 {
					t.Errorf("%+v", v)
				}
				return
			}
			if v.Close || !strings.Contains(strings.Join(v.Causes, "; "), c.cause) {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestTorchRefusals(t *testing.T) {
	py := torchPython(t)
	g := small(t, droppingGPT2)
	whole := &plan.Plan{Nodes: []plan.Node{{First: 0, Last: 7, Segment: true}}}
	t.Run("no CUDA", func(t *testing.T) {
		if osexec.Command(py, "-c", "import torch, sys; sys.exit(torch.cuda.is_available())").Run() != nil {
			t.Skip("there is a CUDA device")
		}
		_, err := Run(t.Context(), Options{Python: py, Device: "cuda:0", Graph: g})
		var e *exec.DeviceError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "device cuda:0: no CUDA device is usable") {
			t.Error(err)
		}
	})
	t.Run("a plan for more layers", func(t *testing.T) {
		_, err := Run(t.Context(), Options{Python: py, Device: "meta", Graph: g, Plan: whole})
		var e *exec.UnsupportedError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "the model has 2 layers, the plan names layer 7") {
			t.Error(err)
		}
	})
	t.Run("offload on the CPU", func(t *testing.T) {
		_, err := Run(t.Context(), Options{Python: py, Device: "cpu", Graph: g, Plan: named(t, g, "offload")})
		if err == nil || !strings.Contains(err.Error(), "a memory of its own, which cpu is not") {
			t.Error(err)
		}
	})
	t.Run("another model", func(t *testing.T) {
		config := []byte(`{"model_type": "gpt2", "n_layer": 3, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 32}`)
		_, err := Run(t.Context(), Options{Python: py, Device: "meta", Graph: g, Config: config})
		var e *exec.OtherModelError
		if !errors.As(err, &e) {
			t.Error(err)
		}
	})
	t.Run("the device's memory", func(t *testing.T) {
		_, err := Run(t.Context(), Options{Python: py, Device: "cpu", Graph: g, plant: "out of memory"})
		var e *exec.MemoryError
		if !errors.As(err, &e) || e.Requested != 20<<30 {
			t.Error(err)
		}
	})
}

func TestPlanOfAnotherShape(t *testing.T) {
	g := small(t, droppingGPT2)
	for _, c := range []struct {
		region plan.Region
		want   string
	}{
		{plan.Region{Span: "router"}, `layer 0 has no part "router"`},
		{plan.Region{Span: "layer", Cache: []string{"q_proj"}}, `layer 0: part "layer" has no op "q_proj"`},
	} {
		o := plan.Option{Regions: []plan.Region{c.region}}
		_, err := Run(t.Context(), Options{Python: "/nonexistent", Device: "meta", Graph: g, Plan: &plan.Plan{Nodes: []plan.Node{{Option: &o}}}})
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// interpreter is a stand-in for Python that fails in its own way.
func interpreter(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunnerDies(t *testing.T) {
	g := small(t, droppingGPT2)
	run := func(ctx context.Context, python string, timeout time.Duration) error {
		_, err := Run(ctx, Options{Python: python, Device: "meta", Graph: g, Timeout: timeout})
		return err
	}
	var engine *exec.EngineError
	if err := run(t.Context(), "/nonexistent/python", 0); !errors.As(err, &engine) || !strings.Contains(err.Error(), "cannot be started: no such file") {
		t.Errorf("no interpreter: %v", err)
	}
	var died *exec.RunnerError
	if err := run(t.Context(), interpreter(t, "kill -9 $$"), 0); !errors.As(err, &died) || !strings.Contains(err.Error(), "killed by signal 9") {
		t.Errorf("killed: %v", err)
	}
	if err := run(t.Context(), interpreter(t, "echo last words >&2; exit 3"), 0); !errors.As(err, &died) || !strings.Contains(err.Error(), "ended with status 3; it wrote last: last words") {
		t.Errorf("status: %v", err)
	}
	if err := run(t.Context(), interpreter(t, "echo 'ckptplan is at: building the model' >&2"), 0); !errors.As(err, &died) || !strings.Contains(err.Error(), "without a result") {
		t.Errorf("no result: %v", err)
	}
	if err := run(t.Context(), interpreter(t, "echo rubbish"), 0); !errors.As(err, &engine) || !strings.Contains(err.Error(), "without running anything: it is not a Python") {
		t.Errorf("no Python: %v", err)
	}
	for _, result := range []string{"null", "{}", `{"engine": "torch", "peak": {"tensor_bytes": 1}}`} {
		if err := run(t.Context(), interpreter(t, "echo '"+result+`' >"$4"`), 0); !errors.As(err, &died) || !strings.Contains(err.Error(), "a result without a measurement") {
			t.Errorf("%s: %v", result, err)
		}
	}
	var late *exec.TimeoutError
	if err := run(t.Context(), interpreter(t, "exec sleep 60"), 50*time.Millisecond); !errors.As(err, &late) {
		t.Errorf("timeout: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := run(ctx, interpreter(t, "exec sleep 60"), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: %v", err)
	}
	if osexec.Command("python3", "-c", "import torch").Run() != nil {
		if python, err := osexec.LookPath("python3"); err == nil {
			if err := run(t.Context(), python, 0); !errors.As(err, &engine) || !strings.Contains(err.Error(), "cannot import torch") {
				t.Errorf("no torch: %v", err)
			}
		}
	}
}
