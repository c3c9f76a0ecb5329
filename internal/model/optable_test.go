package model

import (
	"slices"
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// tableGraphs are graphs that together have every op of the table.
func tableGraphs(t *testing.T) (cuda, cpu []*graph.Graph) {
	t.Helper()
	build := func(s *spec.Spec) {
		for i, o := range []build.Options{{}, {CPU: true}} {
			g, err := Build(s, o)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				cuda = append(cuda, g)
			} else {
				cpu = append(cpu, g)
			}
		}
	}
	for _, p := range Presets() {
		s, err := LoadPreset(p.Name)
		if err != nil {
			t.Fatal(err)
		}
		s.L = min(s.L, 2)
		s.LayerTypes = s.LayerTypes[:min(len(s.LayerTypes), s.L)]
		build(s)
		s.Attention = "eager"
		build(s)
	}
	const sizes = "L: 1\nS: 8\nH: 16\nB: 2\nheads: 2\n"
	for _, doc := range []string{
		sizes + "dtype: bf16\narch: custom\nops: [linear 4H, relu, linear H, tanh]",
		sizes + "dtype: bf16\narch: torch-encoder\nneed_weights: true\ncausal: true",
		sizes + "dtype: fp32\narch: gpt2\nactivation: quick_gelu",
		sizes + "dtype: fp32\narch: gpt2\nattention: sdpa\ndropout: 0",
		sizes + "dtype: bf16\narch: llama\nnorm: rmsnorm-fused",
		sizes + "dtype: fp16\narch: bert\nlabels: 2\nlabels_of: span",
		sizes + "dtype: bf16\narch: bloom",
		sizes + "dtype: bf16\narch: falcon\nattention: eager",
		sizes + "dtype: bf16\narch: llama\nhead_dim: 12",
		sizes + "dtype: bf16\narch: llama\ntrain: {lora: {r: 2, base: nf4}}",
		sizes + "dtype: bf16\narch: llama\ntrain: {lora: {r: 2, base: nf4-double}}",
	} {
		s, err := Load("x", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		build(s)
	}
	t5, err := LoadPreset("t5-base")
	if err != nil {
		t.Fatal(err)
	}
	t5.Precision = dtype.PureFP // which clamps
	build(t5)
	return cuda, cpu
}

func TestEveryRowIsEmitted(t *testing.T) {
	cuda, cpu := tableGraphs(t)
	var seen [graph.Kinds]bool
	for _, g := range slices.Concat(cuda, cpu) {
		for i := range g.Ops {
			seen[g.Ops[i].Kind] = true
		}
	}
	for k := range graph.Table {
		if graph.Table[k].Aten == "" || !seen[k] {
			t.Errorf("row %d (%s): no graph has it", k, graph.Table[k].Aten)
		}
	}
}

// What a row says the CPU runs in the op's place is not run there.
func TestCPUColumn(t *testing.T) {
	_, cpu := tableGraphs(t)
	for _, g := range cpu {
		for i := range g.Ops {
			if r := g.Ops[i].Row(); r.CPU != nil {
				t.Fatalf("%s: the CPU's graph has %s", g.Step.Class, r.Aten)
			}
		}
	}
}

// A temporary of an op's forward is neither read nor kept, so that it is freed when the op is done.
func TestTempsAreFreed(t *testing.T) {
	cuda, _ := tableGraphs(t)
	found := false
	for _, g := range cuda {
		for i := range g.Ops {
			op := &g.Ops[i]
			for _, s := range op.Row().Temps {
				found = true
				temp := g.Tensor(op, s)
				if st := g.StorageOf(temp); st.Born != graph.OpID(i) || st.Drop != graph.OpID(i) {
					t.Errorf("%s: the temporary lives from op %d to %d, the op is %d", op.Row().Aten, st.Born, st.Drop, i)
				}
				g.Saved(op, func(kept graph.TensorID, _ bool) {
					if kept == temp {
						t.Errorf("%s: the temporary is kept for backward", op.Row().Aten)
					}
				})
			}
		}
	}
	if !found {
		t.Error("no op has a temporary")
	}
}
