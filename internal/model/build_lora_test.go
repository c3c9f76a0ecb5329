package model

import (
	"strings"
	"testing"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/class"
)

// Every target that validation accepts must get an adapter in every layer: a name that the builder passes over would
// price a model that trains nothing.
func TestEveryTargetHasAdapters(t *testing.T) {
	more := map[string]string{
		"vit": ", image: {size: 32, patch: 16}, labels: 10", "t5": ", attention: eager", "mixtral": ", moe: {experts: 4, top_k: 2, ffn: 32}",
		"qwen3-moe": ", moe: {experts: 4, top_k: 2, ffn: 32}",
	}
	for _, arch := range class.Archs() {
		if arch == "torch-encoder" || arch == "custom" {
			continue // peft's names are those of Hugging Face's classes
		}
		s, err := Load("x.yaml", []byte("{arch: "+arch+", L: 3, B: 1, heads: 2, H: 16, S: 5, dtype: bf16, train: {lora: {r: 4, targets: [all-linear]}}"+more[arch]+"}"))
		if err != nil {
			t.Fatal(err)
		}
		g, err := Build(s, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, p := range g.Params {
			if !p.Trained {
				continue
			}
			base, adapter := strings.CutSuffix(p.Name, ".lora_A.weight")
			if !adapter {
				if !strings.HasSuffix(p.Name, ".lora_B.weight") {
					t.Errorf("%s: %s is trained", arch, p.Name)
				}
				continue
			}
			found[base[strings.LastIndexByte(base, '.')+1:]]++
		}
		for _, target := range s.Train.LoRA.Targets {
			if found[target] < 3 {
				t.Errorf("%s: %d adapters on %s in 3 layers", arch, found[target], target)
			}
		}
	}
}
