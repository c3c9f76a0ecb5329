package interpreter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/exec"
	"ckptplan/internal/memory"
	"ckptplan/internal/thorough"
)

// randomDoc draws a small model of any class that the host engine runs, with its training settings.
func randomDoc(r *rand.Rand) string {
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	archs := append([]string{"torch-encoder", "custom"}, archs...)
	arch := archs[r.IntN(len(archs))]
	d, heads := 4+2*r.IntN(3), 2+2*r.IntN(2)
	doc := fmt.Sprintf("{arch: %s, L: %d, H: %d, heads: %d, B: %d, dtype: %s, attention: %s", arch, 1+r.IntN(5), heads*d, heads, 1+r.IntN(3),
		pick("fp32", "bf16", "fp16", "amp-bf16", "amp-fp16"), pick("eager", "sdpa", "math"))
	train := fmt.Sprintf("grad_accum: %d, optimizer: %s, keep_logits: %s", 1+r.IntN(2), pick("adamw", "adamw-loop", "adamw-fused", "sgd"), pick("true", "false"))
	if arch == "vit" {
		return doc + ", S: 10, labels: 5, image: {size: 12, patch: 4}, dropout: " + pick("0", "0.1") + ", train: {" + train + "}}"
	}
	if arch == "phi" {
		doc += ", rotary_fraction: 1" // half of some of these heads is odd
	}
	doc += fmt.Sprintf(", S: %d, head_dim: %d, ffn: %d", 3+r.IntN(9), d, 8+4*r.IntN(6))
	switch arch {
	case "torch-encoder":
		doc += ", labels: 5, causal: " + pick("true", "false") + ", need_weights: " + pick("true", "false") + ", dropout: " + pick("0", "0.1")
	case "custom":
		doc += ", ops: " + pick("[layernorm, linear 4H, gelu, dropout 0.1, linear H, residual, attention]", "[linear 4H, relu, linear H]")
	default:
		doc += ", vocab: 11, max_positions: 14, tied: " + pick("true", "false")
	}
	switch arch {
	case "gpt2", "bert", "roberta", "gpt-neox", "phi":
		doc += ", dropout: " + pick("0", "0.1")
	case "opt":
		doc += ", dropout: {residual: 0.1, attention: " + pick("0", "0.1") + "}"
	case "llama", "mistral", "qwen2":
		doc += ", kv_heads: 2, norm: " + pick("rmsnorm", "rmsnorm-fused") + ", checkpoint: " + pick("none", "full")
		if r.IntN(2) == 0 {
			train += ", finetune: lora, lora: {r: 2, alpha: 4, dropout: " + pick("0", "0.1") + ", dtype: " + pick("fp32", "bf16") +
				", targets: " + pick("[q_proj, v_proj]", "[down_proj]", "[o_proj, up_proj]") + "}"
		}
	}
	return doc + ", train: {" + train + "}}"
}

// Random models under random plans: bytes are the simulator's, gradients those without checkpointing.
func TestRandomSpecs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	specs := 150
	if !thorough.On {
		specs = 60
	}
	for range specs {
		doc := randomDoc(r)
		p := program(t, doc)
		base := runPlan(t, p, namedPlan(t, p, "none"))
		for range 3 {
			pl := randomPlan(r, p.Graph)
			if _, err := memory.Lower(p, pl); err != nil {
				continue // layers differ, and the plan names an op that one of them does not have
			}
			if d := cmp.Diff(hashes(base), hashes(runPlan(t, p, pl))); d != "" {
				t.Errorf("gradients change:\n%s", d)
			}
			if t.Failed() {
				t.Fatalf("%s: plan %s", doc, describe(pl.Nodes))
			}
		}
	}
}

// hashes are the gradients' bytes alone: norms in 16 bits can be infinite or not a number.
func hashes(grads []exec.Gradient) []string {
	var out []string
	for _, g := range grads {
		out = append(out, g.Name+" "+g.SHA256)
	}
	return out
}
