package strategy

import (
	"context"
	"slices"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/thorough"
)

// TestRowsOfTwoStacks: with stacks of one to three layers the rows give the simulated peak of every mixed plan, or one
// above it by no more than the slack: the position bias is kept by its maker, by one other layer, or held by a local until
// the stack is done. In stacks of more than four layers one layer stands for several, of which none, or any, frees a bias.
func TestRowsOfTwoStacks(t *testing.T) {
	thorough.Skip(t)
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{
		"{arch: t5, L: 1, decoder_L: 2, S: 96, decoder_S: 64, H: 64, B: 4, heads: 4, ffn: 128, vocab: 100, dtype: bf16}",
		"{arch: t5, L: 2, decoder_L: 1, S: 130, decoder_S: 60, H: 64, B: 2, heads: 2, ffn: 64, vocab: 348, precision: amp-bf16, gated: true, dropout: 0, train: {keep_logits: false, grad_accum: 2}}",
		"{arch: t5, L: 1, decoder_L: 1, S: 20, decoder_S: 160, H: 64, B: 2, heads: 4, ffn: 64, vocab: 100, dtype: fp32, train: {lora: {r: 4, targets: [q, v]}}}",
		"{arch: t5, L: 1, decoder_L: 5, S: 32, decoder_S: 160, H: 64, B: 3, heads: 8, ffn: 64, vocab: 100, dtype: bf16}",
	} {
		spec, err := model.Load("spec.yaml", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"selective", "full"} {
			p, err := memory.NewPrograms(spec, false).Kind(kind)
			if err != nil {
				t.Fatal(err)
			}
			few := []string{"keep", "norm1", "attn", "full"}
			sp, err := graphs{kind: p}.space(context.Background(), Request{kind: kind, Sheet: sheet}, func(o *plan.Option) bool {
				return p.Graph.Layers <= 3 || slices.Contains(few, o.Name)
			})
			if err != nil {
				t.Fatal(err)
			}
			prob, slack := sp.Problem(), max(sp.Slack())
			choice := make([]int, p.Graph.Layers)
			for more := true; more; more = next(choice, len(sp.Options)-1) {
				tl, err := memory.Judge(p, planOf(sp.Options, choice), nil)
				if err != nil {
					t.Fatal(err)
				}
				rows, _ := prob.Evaluate(choice)
				if is := tl.Peak.Bytes; rows < is || rows > is+slack {
					t.Fatalf("%s\n%s, options %v: rows say %d, simulated %d, slack %d", doc, kind, choice, rows, is, slack)
				}
			}
		}
	}
}

// next counts choice up to n in every place; false after the last.
func next(choice []int, n int) bool {
	for u := range choice {
		if choice[u]++; choice[u] <= n {
			return true
		}
		choice[u] = 0
	}
	return false
}
