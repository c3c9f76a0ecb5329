package torch

import (
	"strings"
	"testing"
	"time"

	"ckptplan/internal/exec"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// small is a spec whose step takes the CPU a fraction of a second: eager attention, fp32 and no dropout, so that the
// CPU runs the same ops as CUDA.
func small(t *testing.T, doc string) *graph.Graph {
	t.Helper()
	s, err := model.Load("small.yaml", []byte(doc+"dtype: fp32\nattention: eager\n"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := model.Build(s, build.Options{CPU: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const (
	smallGPT2 = "arch: gpt2\nL: 6\nS: 128\nH: 128\nB: 4\nheads: 4\nvocab: 1000\nmax_positions: 128\n" +
		"dropout: {embedding: 0, attention: 0, residual: 0}\n"
	smallLlama = "arch: llama\nL: 6\nS: 128\nH: 128\nB: 4\nheads: 4\nkv_heads: 2\nffn: 352\nvocab: 1000\n"
	smallBERT  = "arch: bert\nL: 4\nS: 128\nH: 128\nB: 4\nheads: 4\nvocab: 1000\nmax_positions: 128\n" +
		"dropout: {embedding: 0, attention: 0, residual: 0}\n"
)

// cached is a plan whose layers keep the outputs of the named ops.
func cached(layers int, ops ...string) *plan.Plan {
	o := plan.Option{Name: "cached", Regions: []plan.Region{{Span: "layer", Cache: ops}}}
	return &plan.Plan{Strategy: "custom", Nodes: []plan.Node{{First: 0, Last: layers - 1, Option: &o}}}
}

// cpuTolerance leaves room for the numbers in Python's expressions, each a tensor of 8 bytes or 4 while an op's node holds
// it: 200 bytes of 23 million here.
const cpuTolerance = 0.00002

// agree compares every figure of a measured step with its prediction; tolerance is a share of the measured one.
func agree(t *testing.T, tl *memory.Timeline, m *exec.Measurement, tolerance float64) {
	t.Helper()
	for _, d := range exec.Compare(tl, m, tolerance).Lines {
		if !d.Within {
			t.Errorf("%s: predicted %d, measured %d (%+d)", d.What, int64(d.Predicted), int64(d.Measured), int64(d.Predicted-d.Measured))
		}
	}
}

// TestTorchCPUPeak compares the profiler's figures of a real step with the prediction.
func TestTorchCPUPeak(t *testing.T) {
	py := torchPython(t)
	for _, c := range []struct{ name, doc, strategy string }{
		{"gpt2", smallGPT2, "none"},
		{"gpt2", smallGPT2, "full"},
		{"gpt2", smallGPT2, "segments-3"},
		{"gpt2", smallGPT2, "nested-3"},
		{"gpt2", smallGPT2, "selective"},
		{"llama", smallLlama, "none"},
		{"llama", smallLlama, "every-2"},
		{"llama", smallLlama, "selective-mlp"},
		{"llama", smallLlama, "cached gate_proj o_proj"},
		{"llama", smallLlama, "cached down_proj"}, // never asked for: the recompute stops before it
		{"bert", smallBERT, "none"},
		{"bert", smallBERT, "full"},
	} {
		t.Run(c.name+" "+c.strategy, func(t *testing.T) {
			t.Parallel()
			g := small(t, c.doc)
			var p *plan.Plan
			if ops, ok := strings.CutPrefix(c.strategy, "cached "); ok {
				p = cached(g.Layers, strings.Fields(ops)...)
			} else {
				p = named(t, g, c.strategy)
			}
			m, err := Run(t.Context(), Options{Python: py, Device: "cpu", Graph: g, Plan: p, Steps: 2, Values: true, Timeout: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			agree(t, judge(t, g, p), m, cpuTolerance)
		})
	}
}
