package torch

import (
	"bytes"
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/model"
	"ckptplan/internal/model/graph"
)

// TestTorchAutocast: under autocast a plan's loss and gradients are the baseline's to the bit, with dropout in every
// layer, and no region starts its recompute under another autocast than its forward.
func TestTorchAutocast(t *testing.T) {
	py := torchPython(t)
	g := halfGPT2(t)
	run := func(strategy string) *exec.Measurement {
		m, err := Run(t.Context(), Options{Python: py, Device: "cpu", Graph: g, Plan: named(t, g, strategy), Values: true})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	baseline := run("none")
	if n := len(baseline.Gradients); n != 28 { // 12 of each layer, 2 embeddings (the head is tied), the last norm's 2
		t.Errorf("%d gradients were compared", n)
	}
	for _, strategy := range []string{"full", "nested-2"} {
		if v := exec.CompareValues(baseline, run(strategy), 8); !v.Equal || len(v.Causes) > 0 {
			t.Errorf("%s: %+v", strategy, v)
		}
	}
}

// TestTorchRecomputeDTypes looks at every matrix product of a layer: under autocast forward and recompute both give
// 16 bits, on the CPU by PyTorch's autocast and on meta by the runner's own. A recompute without it gives 32, which
// PyTorch refuses once the first layer to be recomputed, the last one, is done.
func TestTorchRecomputeDTypes(t *testing.T) {
	py := torchPython(t)
	g := halfGPT2(t)
	for _, c := range []struct {
		device, plant string
		want          []string // of a product that runs twice
	}{
		{"cpu", "", []string{"bfloat16", "bfloat16"}},
		{"meta", "", []string{"bfloat16", "bfloat16"}},
		{"cpu", "precision", []string{"bfloat16", "float32"}},
		{"meta", "precision", []string{"bfloat16", "float32"}},
	} {
		t.Run(c.device+" "+c.plant, func(t *testing.T) {
			products := dtypes(t, py, Options{Device: c.device, Graph: g, Plan: named(t, g, "full"), plant: c.plant})
			if len(products) != 8 { // 2 layers of c_attn, c_proj, c_fc, c_proj
				t.Errorf("%d products were seen: %v", len(products), products)
			}
			for name, got := range products {
				if c.plant != "" && strings.HasPrefix(name, "0 ") {
					continue
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("layer and product %s: %v, want %v", name, got, c.want)
				}
			}
		})
	}
}

func halfGPT2(t *testing.T) *graph.Graph {
	t.Helper()
	s, err := model.Load("amp.yaml", []byte(droppingGPT2+"dtype: amp-bf16\nattention: eager\n"))
	if err != nil {
		t.Fatal(err)
	}
	return graphOf(t, s)
}

// dtypes are the types that each product of each layer gave, call by call.
func dtypes(t *testing.T, py string, o Options) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	if err := unpack(dir); err != nil {
		t.Fatal(err)
	}
	job, err := newJob(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "job.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), py, "-B", filepath.Join("testdata", "recompute_dtypes.py"), dir, file)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	var products map[string][]string
	if err := json.Unmarshal(out, &products); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return products
}
