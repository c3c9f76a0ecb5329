package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/model"
)

// Known answers of Philox4x32-10 from the authors' Random123 library (tests/kat_vectors).
func TestPhilox(t *testing.T) {
	for _, tt := range []struct {
		key     uint64
		counter [2]uint64
		want    [4]uint32
	}{
		{0, [2]uint64{0, 0}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, [2]uint64{math.MaxUint64, math.MaxUint64}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, [2]uint64{0x85a308d3243f6a88, 0x0370734413198a2e}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(tt.key, tt.counter); got != tt.want {
			t.Errorf("philox(%x, %x) = %08x, want %08x", tt.key, tt.counter, got, tt.want)
		}
	}
}

// A million draws: mean and variance of the normals, share of kept elements.
func TestRandom(t *testing.T) {
	const n = 1_000_000
	r := stream{key: 5}
	mean, square := 0.0, 0.0
	for _, x := range r.normals(n) {
		mean += x / n
		square += x * x / n
	}
	if math.Abs(mean) > 5e-3 || math.Abs(square-1) > 1e-2 { // 5 standard errors: 1/√n, √(2/n)
		t.Errorf("normals have mean %v and mean square %v", mean, square)
	}
	kept := 0
	for _, k := range r.mask(n, 0.1) {
		if k {
			kept++
		}
	}
	if math.Abs(float64(kept)/n-0.9) > 1.5e-3 { // 5·√(0.09/n)
		t.Errorf("dropout of 0.1 keeps %d of %d", kept, n)
	}
}

func TestRounding(t *testing.T) {
	for _, tt := range []struct {
		dt      model.DType
		x, want float32
	}{
		{model.BF16, 1 + 1.0/256, 1},                  // halfway, to even
		{model.BF16, 1 + 3.0/256, 1 + 4.0/256},        // halfway, to even
		{model.BF16, 1 + 1.0/256 + 1e-6, 1 + 1.0/128}, // above halfway
		{model.BF16, -3.14159, -3.140625},
		{model.BF16, float32(math.Inf(1)), float32(math.Inf(1))},
		{model.F16, 1 + 1.0/2048, 1},
		{model.F16, 1 + 3.0/2048, 1 + 4.0/2048},
		{model.F16, 65519, 65504},
		{model.F16, 65520, float32(math.Inf(1))},
		{model.F16, 1.0 / (1 << 24), 1.0 / (1 << 24)}, // the smallest subnormal
		{model.F16, 1.0 / (1 << 25), 0},
		{model.F16, -0.1, -0.0999755859375},
		{model.F32, 0.1, 0.1},
	} {
		if got := roundTo(tt.dt, tt.x); got != tt.want {
			t.Errorf("%v in %s is %v, want %v", tt.x, tt.dt, got, tt.want)
		}
	}
	if x := roundTo(model.BF16, float32(math.NaN())); x == x {
		t.Errorf("NaN in bf16 is %v", x)
	}
}

// Every op of the classes that the host engine runs has its kernels, forward and backward.
func TestHasKernels(t *testing.T) {
	for _, arch := range archs {
		for _, dtype := range []string{"fp32", "bf16", "fp16", "amp-bf16"} {
			for _, attention := range []string{"eager", "sdpa", "math"} {
				p := program(t, archDoc(arch, dtype, attention))
				if missing := missingKernels(p.Graph); len(missing) > 0 {
					t.Errorf("%s %s %s: no kernel for %v", arch, dtype, attention, missing)
				}
			}
		}
	}
}

// A class whose ops are not all there is refused by name, before anything runs.
func TestRefusesOps(t *testing.T) {
	p := program(t, "{arch: mixtral, L: 1, H: 16, heads: 2, S: 8, B: 1, vocab: 30, dtype: fp32, attention: eager}")
	_, err := Run(context.Background(), Options{Schedule: lowered(t, p, "none")})
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
		kind     model.Kind
		doc      string
		op, slot string
	}{
		{model.OpSilu, models["llama"], "aten.silu", "input 0"},
		{model.OpSoftmax, models["gpt2"], "aten._softmax", "output 0"},
		{model.OpDropout, models["bert"], "aten.native_dropout", "output 1"},
		{model.OpAddMM, models["vit"], "aten.addmm", "input 1"},
	} {
		p := program(t, fmt.Sprintf(tt.doc, "fp32", "eager"))
		for _, strategy := range []string{"none", "full"} {
			s := lowered(t, p, strategy)
			was := model.Table[tt.kind].Save
			if tt.kind == model.OpAddMM {
				model.Table[tt.kind].Save = was[1:]
			} else {
				model.Table[tt.kind].Save = nil
			}
			_, err := Run(context.Background(), Options{Schedule: s})
			model.Table[tt.kind].Save = was
			var u *UndeclaredReadError
			if !errors.As(err, &u) || u.Op != tt.op || u.Slot != tt.slot {
				t.Errorf("%s without saving %s, %s: %v", tt.op, tt.slot, strategy, err)
			}
		}
	}
}

// A local that is let go before its last reader is an error of the run, not a wrong number.
func TestReadsOnlyWhatIsHeld(t *testing.T) {
	p := program(t, fmt.Sprintf(models["llama"], "fp32", "eager"))
	g := p.Graph
	sp, _ := g.Span(1, "mlp")
	for i := sp.First; i < sp.End; i++ {
		if g.Ops[i].Kind != model.OpSilu {
			continue
		}
		s := &g.Storages[g.Tensors[g.Outputs(&g.Ops[i])[0]].Storage]
		s.Drop = i // read by the product of gate and up
		_, err := Run(context.Background(), Options{Schedule: lowered(t, p, "full")})
		if err == nil || err.Error() != "aten.silu is read where nothing holds it" {
			t.Errorf("%v", err)
		}
	}
}
