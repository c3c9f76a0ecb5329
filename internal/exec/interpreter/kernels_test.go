package interpreter

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/exec/host"
	"ckptplan/internal/model/graph"
)

// Every op of the classes that the host engine runs has its kernels, forward and backward.
func TestHasKernels(t *testing.T) {
	for _, arch := range archs {
		for _, dtype := range []string{"fp32", "bf16", "fp16", "amp-bf16"} {
			for _, attention := range []string{"eager", "sdpa", "math"} {
				p := program(t, archDoc(arch, dtype, attention))
				if missing := missing(p.Graph, host.NewDevice(0)); len(missing) > 0 {
					t.Errorf("%s %s %s: no kernel for %v", arch, dtype, attention, missing)
				}
			}
		}
	}
}

// A class whose ops are not all there is refused by name, before anything runs.
func TestRefusesOps(t *testing.T) {
	p := program(t, "{arch: mixtral, L: 1, H: 16, heads: 2, S: 8, B: 1, vocab: 30, dtype: fp32, attention: eager}")
	_, err := run(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: lowered(t, p, "none")})
	var u *exec.UnsupportedError
	if !errors.As(err, &u) {
		t.Errorf("%v", err)
	}
}

// archs are the classes that the host engine runs.
var archs = []string{
	"gpt2", "llama", "mistral", "qwen2", "qwen3", "bert", "roberta", "vit", "gpt-neox", "phi", "phi3", "gemma", "gemma2", "olmo2", "starcoder2", "granite",
	"cohere", "opt",
}

func archDoc(arch, dtype, attention string) string {
	if doc, ok := models[arch]; ok {
		return fmt.Sprintf(doc, dtype, attention)
	}
	return fmt.Sprintf("{arch: %s, L: 2, H: 16, heads: 2, head_dim: 8, ffn: 24, S: 8, B: 2, vocab: 30, max_positions: 12, dtype: %s, attention: %s}", arch, dtype, attention)
}

// A kernel that reads what its op's row does not save fails with an error that names both, checkpointed or not.
func TestUndeclaredReads(t *testing.T) {
	for _, tt := range []struct {
		kind     graph.Kind
		doc      string
		op, slot string
	}{
		{graph.OpSilu, models["llama"], "aten.silu", "input 0"},
		{graph.OpSoftmax, models["gpt2"], "aten._softmax", "output 0"},
		{graph.OpDropout, models["bert"], "aten.native_dropout", "output 1"},
		{graph.OpAddMM, models["vit"], "aten.addmm", "input 1"},
	} {
		p := program(t, fmt.Sprintf(tt.doc, "fp32", "eager"))
		for _, strategy := range []string{"none", "full"} {
			s := lowered(t, p, strategy)
			was := graph.Table[tt.kind].Save
			if tt.kind == graph.OpAddMM {
				graph.Table[tt.kind].Save = was[1:]
			} else {
				graph.Table[tt.kind].Save = nil
			}
			_, err := run(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: s})
			graph.Table[tt.kind].Save = was
			var u *UndeclaredReadError
			if !errors.As(err, &u) || u.Op != tt.op || u.Slot != tt.slot {
				t.Errorf("%s without saving %s, %s: %v", tt.op, tt.slot, strategy, err)
			}
		}
	}
}

// A local that is freed before its last reader is an error of the run, not a wrong number.
func TestReadsOnlyWhatIsHeld(t *testing.T) {
	p := program(t, fmt.Sprintf(models["llama"], "fp32", "eager"))
	g := p.Graph
	sp, _ := g.Span(1, "mlp")
	for i := sp.First; i < sp.End; i++ {
		if g.Ops[i].Kind != graph.OpSilu {
			continue
		}
		s := &g.Storages[g.Tensors[g.Outputs(&g.Ops[i])[0]].Storage]
		s.Drop = i // read by the product of gate and up
		_, err := run(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: lowered(t, p, "full")})
		if err == nil || err.Error() != "aten.silu is read after it was freed" {
			t.Errorf("%v", err)
		}
	}
}
