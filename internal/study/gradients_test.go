package study

import (
	"strings"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// noted estimates a step without checkpointing and returns its verdict, what is said about gradients, and the remarks.
func noted(t *testing.T, doc, card string, budget unit.Bytes) (Verdict, string, []string) {
	t.Helper()
	sheet, err := gpu.Lookup(card)
	if err != nil {
		t.Fatal(err)
	}
	study := studyOf(t, doc, sheet)
	none, err := plan.Named("none", study.layers())
	if err != nil {
		t.Fatal(err)
	}
	if budget == 0 {
		budget = sheet.TotalBytes
	}
	study.Budget, study.Reserve = budget, -1
	e, err := study.Estimate(t.Context(), []Choice{{Name: "none", Plan: none}}, Whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range e.Warnings {
		if strings.HasPrefix(w, gradientsFreed) {
			return *e.Estimates[0].Verdict, w, e.Explanation.Remarks
		}
	}
	return *e.Estimates[0].Verdict, "", e.Explanation.Remarks
}

// huggingface/transformers#16561 (PyTorch 1.11, whose zero_grad() keeps gradients): T5-large in fp32 on V100s of 16 GB
// runs with a micro batch of 2 and is out of memory with 4 (128 tokens in the script that it refers to), where freed
// gradients would leave 3 GB.
func TestGradientsHeldThroughForward(t *testing.T) {
	const doc = "{arch: t5, L: 24, S: 128, H: 1024, B: 4, heads: 16, head_dim: 64, ffn: 4096, vocab: 32128, dtype: fp32, attention: eager, decoder_L: 24, decoder_S: 128, tied: true, train: {optimizer: adamw-loop}}"
	v, note, remarks := noted(t, doc, "v100-16gb", 0)
	if v != Fits || !strings.HasSuffix(note, ", which is tight") {
		t.Errorf("%s, %q", v, note)
	}
	if r := remarks[len(remarks)-1]; note != r+", which is tight" {
		t.Errorf("remark %q, note %q", r, note)
	}
	if v, note, _ := noted(t, doc, "v100-16gb", 13500*unit.MiB); v != Tight || !strings.HasSuffix(note, ", which does not fit") {
		t.Errorf("%s, %q", v, note)
	}
	if v, note, _ := noted(t, doc, "a100-40gb", 0); v != Fits || note != "" {
		t.Errorf("%s, %q", v, note)
	}
	if v, note, _ := noted(t, strings.Replace(doc, "optimizer: adamw-loop", "optimizer: adamw-loop, grad_accum: 2", 1), "v100-16gb", 0); v != Tight || note != "" {
		t.Errorf("accumulated: %s, %q", v, note) // gradients are there anyway, and counted
	}
}

// The remarks say which software's ops were counted.
func TestRemarkNamesReleases(t *testing.T) {
	for doc, want := range map[string]string{
		"{arch: llama, L: 1, S: 8, H: 64, B: 1, heads: 2, dtype: bf16}":                              "PyTorch 2.14 and Hugging Face transformers 5.12",
		"{arch: custom, L: 1, S: 8, H: 64, B: 1, heads: 2, dtype: bf16, ops: [linear 4H, linear H]}": "PyTorch 2.14",
	} {
		_, _, remarks := noted(t, doc, "t4", 0)
		if all := strings.Join(remarks, "\n"); !strings.Contains(all, "the ops are those of "+want+":") {
			t.Errorf("%s: %s", want, all)
		}
	}
}
