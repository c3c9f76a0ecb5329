package interpreter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/exec/host"
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/unit"
)

func lowered(t testing.TB, p *memory.Program, strategy string) *memory.Schedule {
	t.Helper()
	s, err := memory.Lower(p, namedPlan(t, p, strategy))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each classic mistake of checkpointing leaves the loss as it is, changes gradients, and is named.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		fault  Fault
		doc    string
		reason string
	}{
		{FaultRandomState, fmt.Sprintf(models["gpt2"], "fp32", "eager"), "random state is not restored"},
		{FaultRandomState, fmt.Sprintf(models["llama"], "bf16", "sdpa"), "random state is not restored"},
		{FaultInPlace, fmt.Sprintf(models["bert"], "fp32", "sdpa"), "changes the region's input in place"},
		{FaultInPlace, fmt.Sprintf(models["llama"], "bf16", "eager"), "changes the region's input in place"},
		{FaultPrecision, fmt.Sprintf(models["vit"], "fp32", "eager"), "another precision"},
		{FaultPrecision, fmt.Sprintf(models["gpt2"], "bf16", "eager"), "another precision"},
	} {
		for _, strategy := range []string{"full", "nested-2", "selective-attn"} {
			p := program(t, tt.doc)
			run := func(strategy string, fault Fault) *exec.Measurement {
				m, err := run(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: lowered(t, p, strategy), Seed: 3, Fault: fault})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			base := run("none", NoFault)
			sound := exec.CompareValues(base, run(strategy, NoFault), 24)
			if !sound.Equal || len(sound.Causes) > 0 {
				t.Errorf("%s %s without a fault: %+v", p.Graph.Step.Class, strategy, sound)
			}
			m := run(strategy, tt.fault)
			if m.Loss != base.Loss {
				t.Errorf("%s %s: the loss is %v, without the fault %v", p.Graph.Step.Class, strategy, m.Loss, base.Loss)
			}
			v := exec.CompareValues(base, m, 24)
			if v.Equal || len(v.Causes) != 1 || !strings.Contains(v.Causes[0], tt.reason) {
				t.Errorf("%s %s: equal %v, causes %q, want %q", p.Graph.Step.Class, strategy, v.Equal, v.Causes, tt.reason)
			}
			if tt.fault != FaultPrecision && v.Close {
				t.Errorf("%s %s: gradients are close", p.Graph.Step.Class, strategy)
			}
		}
	}
}

// A device of exactly the peak suffices, one byte less does not: the answer says what was wanted and what was free.
func TestOutOfMemory(t *testing.T) {
	p := program(t, fmt.Sprintf(models["gpt2"], "bf16", "eager"))
	for i, strategy := range []string{"none", "full", "offload", "none", "full", "offload"} {
		d := devices[i/3]
		s := lowered(t, p, strategy)
		tl, err := memory.Simulate(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		peak := unit.Bytes(tl.Peak.Bytes)
		m, err := run(context.Background(), Options{Device: d.open(t, peak), Engine: "host", Schedule: s})
		if err != nil {
			t.Fatalf("%s: %v", strategy, err)
		}
		if c := exec.Compare(tl, m, 0); !c.Agrees || len(c.Lines) != 5 { // three phases, before backward, the peak
			t.Errorf("%s: %+v", strategy, c.Lines)
		}
		if m.Peak.Tensor != peak || m.Peak.Phase != tl.Peak.Phase.String() || m.Peak.Op != tl.Peak.Aten {
			t.Errorf("%s: peak %d in %s at %s; simulated %d in %s at %s", strategy, m.Peak.Tensor, m.Peak.Phase, m.Peak.Op, peak, tl.Peak.Phase, tl.Peak.Aten)
		}
		_, err = run(context.Background(), Options{Device: d.open(t, peak-1), Engine: "host", Schedule: s})
		var oom *exec.MemoryError
		var full *gpu.OutOfMemoryError
		if !errors.As(err, &oom) || !errors.As(err, &full) || !errors.Is(err, gpu.ErrOutOfMemory) {
			t.Fatalf("%s with a byte less: %v", strategy, err)
		}
		if full.Wanted <= full.Free || oom.Requested != full.Wanted || oom.Allocated+oom.Free != oom.Total || oom.Total != peak-1 {
			t.Errorf("%s: %+v", strategy, oom)
		}
	}
}

// Weights alone do not fit.
func TestOutOfMemoryAtStart(t *testing.T) {
	p := program(t, fmt.Sprintf(models["vit"], "fp32", "eager"))
	for _, d := range devices {
		if _, err := run(context.Background(), Options{Device: d.open(t, 100), Engine: "host", Schedule: lowered(t, p, "none")}); !errors.Is(err, gpu.ErrOutOfMemory) {
			t.Errorf("%s: %v", d.name, err)
		}
	}
}

func TestIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := program(t, fmt.Sprintf(models["gpt2"], "fp32", "eager"))
	if _, err := run(ctx, Options{Device: host.NewDevice(0), Engine: "host", Schedule: lowered(t, p, "none")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
