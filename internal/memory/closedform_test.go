package memory

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// compileYAML makes the program of a spec document.
func compileYAML(t testing.TB, doc string) *Program {
	t.Helper()
	s, err := model.Load("test.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Compile(g)
}

// judgeNamed simulates a named strategy on the graph that it runs on.
func judgeNamed(t testing.TB, p *Program, strategy string) *Timeline {
	t.Helper()
	pl, err := plan.Named(strategy, p.Graph.Layers)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := p.Kin().Judge(pl, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// savedBy sums what autograd keeps of one layer: each storage once, parameters and inputs not at all; autocast's
// weight copies apart.
func savedBy(p *Program, layer int) (activations, weightCasts int64) {
	sp, _ := p.Graph.Span(layer, "layer")
	seen := map[graph.StorageID]bool{}
	for i := sp.First; i < sp.End; i++ {
		for _, s := range p.saves[p.ops[i].save:p.ops[i].saveEnd] {
			if s.static || seen[s.storage] {
				continue
			}
			seen[s.storage] = true
			if st := p.Graph.Storages[s.storage]; st.Role == graph.WeightCast {
				weightCasts += st.Bytes
			} else {
				activations += st.Bytes
			}
		}
	}
	return activations, weightCasts
}

func gpt2Doc(dropout float64, act, attention, dtype string, b, s int) string {
	return fmt.Sprintf("{arch: gpt2, L: 3, H: 768, heads: 12, S: %d, B: %d, dtype: %s, attention: %s, activation: %s, dropout: %v}", s, b, dtype, attention, act, dropout)
}

func llamaDoc(norm, attention, dtype string, b, s int) string {
	return fmt.Sprintf("{arch: llama, L: 3, H: 2048, heads: 16, kv_heads: 4, ffn: 5632, vocab: 1000, S: %d, B: %d, dtype: %s, attention: %s, norm: %s}", s, b, dtype, attention, norm)
}

// What PyTorch 2.14 was seen to save for one block with saved-tensor hooks, each storage once, parameters excluded.
// Llama's numbers include cos and sin, 2·S·D elements that all layers share.
func TestSavedBytesOfABlock(t *testing.T) {
	for _, tt := range []struct {
		name, doc   string
		want, casts int64
	}{
		{"GPT-2 eager dropout gelu_tanh bf16", gpt2Doc(.1, "gelu_tanh", "eager", "bf16", 4, 1024), 358_678_528, 0},
		{"GPT-2 eager dropout gelu_new bf16", gpt2Doc(.1, "gelu_new", "eager", "bf16", 4, 1024), 434_176_000, 0},
		{"GPT-2 eager dropout gelu_tanh fp32", gpt2Doc(.1, "gelu_tanh", "eager", "fp32", 4, 1024), 660_668_416, 0},
		{"GPT-2 eager dropout gelu_new fp32", gpt2Doc(.1, "gelu_new", "eager", "fp32", 4, 1024), 811_663_360, 0},
		{"GPT-2 eager gelu_tanh bf16", gpt2Doc(0, "gelu_tanh", "eager", "bf16", 4, 1024), 201_392_128, 0},
		{"GPT-2 eager gelu_tanh fp32", gpt2Doc(0, "gelu_tanh", "eager", "fp32", 4, 1024), 402_718_720, 0},
		{"GPT-2 SDPA dropout gelu_tanh bf16", gpt2Doc(.1, "gelu_tanh", "sdpa", "bf16", 4, 1024), 107_216_920, 0},
		{"GPT-2 SDPA gelu_tanh bf16", gpt2Doc(0, "gelu_tanh", "sdpa", "bf16", 4, 1024), 100_925_464, 0},
		{"GPT-2 SDPA gelu_new bf16", gpt2Doc(0, "gelu_new", "sdpa", "bf16", 4, 1024), 176_422_936, 0},
		{"GPT-2 SDPA gelu_tanh autocast", gpt2Doc(0, "gelu_tanh", "sdpa", "amp-bf16", 2, 256), 14_188_568, 14_155_776},
		{"GPT-2 eager dropout gelu_tanh autocast", gpt2Doc(.1, "gelu_tanh", "eager", "amp-bf16", 2, 256), 25_960_448, 14_155_776},
		{"GPT-2 SDPA gelu_new autocast", gpt2Doc(0, "gelu_new", "sdpa", "amp-bf16", 2, 256), 33_062_936, 14_155_776},
		{"Llama fused norm SDPA bf16", llamaDoc("rmsnorm-fused", "sdpa", "bf16", 2, 1024), 147_472_408, 0},
		{"Llama SDPA bf16", llamaDoc("rmsnorm", "sdpa", "bf16", 2, 1024), 181_026_840, 0},
		{"Llama eager bf16", llamaDoc("rmsnorm", "eager", "bf16", 2, 1024), 394_805_248, 0},
		{"Llama eager fp32", llamaDoc("rmsnorm", "eager", "fp32", 2, 1024), 487_604_224, 0},
		{"Llama SDPA autocast", llamaDoc("rmsnorm", "sdpa", "amp-bf16", 2, 256), 55_873_560, 90_177_536},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, casts := savedBy(compileYAML(t, tt.doc), 1)
			if got != tt.want {
				t.Errorf("saved %d, want %d: %+d", got, tt.want, got-tt.want)
			}
			if casts != tt.casts {
				t.Errorf("weight casts %d, want %d", casts, tt.casts)
			}
		})
	}
}

// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", equation 1: a layer keeps
// s·b·h·(34 + 5·a·s/h) bytes in 16 bits with three dropouts, a fused GELU and scores in memory. PyTorch adds the two
// LayerNorms' statistics, 4 vectors of s·b fp32 values: 16/h a token and hidden unit.
func TestMegatronsClosedForm(t *testing.T) {
	for _, m := range []struct{ s, b, h, a int64 }{{512, 1, 768, 12}, {1024, 4, 1024, 16}, {2048, 2, 1600, 25}, {256, 3, 12288, 96}} {
		doc := fmt.Sprintf("{arch: gpt2, L: 2, S: %d, B: %d, H: %d, heads: %d, vocab: 100, dtype: bf16, attention: eager, activation: gelu_tanh, dropout: 0.1}", m.s, m.b, m.h, m.a)
		got, _ := savedBy(compileYAML(t, doc), 1)
		if want := 34*m.s*m.b*m.h + 5*m.a*m.s*m.s*m.b + 16*m.s*m.b; got != want {
			t.Errorf("%+v: %d, want %d: %+d", m, got, want, got-want)
		}
	}
}

// The sums of the op table's "saved" column that the semantics of PyTorch give for a block, in bytes a token and
// hidden unit; A = a·S/h, K = k/a, F = f/h.
func TestClosedFormsOfABlock(t *testing.T) {
	type shape struct{ S, B, H, a, k, f float64 }
	gpt2 := shape{768, 2, 512, 8, 8, 2048}
	llama := shape{768, 2, 1024, 16, 4, 2816}
	for _, tt := range []struct {
		name string
		m    shape
		doc  string // the rest of the spec
		form func(A, K, F float64, m shape) float64
	}{
		{"GPT-2 eager dropout fp32", gpt2, "arch: gpt2, activation: gelu_tanh, dropout: 0.1, attention: eager, dtype: fp32", func(A, _, _ float64, m shape) float64 { return 66 + 9*A + 16/m.H }},
		{"GPT-2 eager dropout autocast", gpt2, "arch: gpt2, activation: gelu_tanh, dropout: 0.1, attention: eager, dtype: amp-bf16", func(A, _, _ float64, m shape) float64 { return 38 + 7*A + 16/m.H }},
		{"GPT-2 eager autocast", gpt2, "arch: gpt2, activation: gelu_tanh, dropout: 0, attention: eager, dtype: amp-bf16", func(A, _, _ float64, m shape) float64 { return 36 + 6*A + 16/m.H }},
		{"GPT-2 SDPA dropout", gpt2, "arch: gpt2, activation: gelu_tanh, dropout: 0.1, dtype: bf16", func(_, _, _ float64, m shape) float64 { return 34 + 16/m.H + 4*m.a/m.H }},
		{"GPT-2 SDPA dropout fp32", gpt2, "arch: gpt2, activation: gelu_tanh, dropout: 0.1, dtype: fp32", func(_, _, _ float64, m shape) float64 { return 66 + 16/m.H + 4*m.a/m.H }},
		{"GPT-2 SDPA dropout autocast", gpt2, "arch: gpt2, activation: gelu_tanh, dropout: 0.1, dtype: amp-bf16", func(_, _, _ float64, m shape) float64 { return 38 + 16/m.H + 4*m.a/m.H }},
		{"GPT-2 gelu_new", gpt2, "arch: gpt2, activation: gelu_new, dropout: 0, dtype: bf16", func(_, _, _ float64, m shape) float64 { return 32 + 24 + 16/m.H + 4*m.a/m.H }},
		{"Llama fused norm", llama, "arch: llama, norm: rmsnorm-fused, dtype: bf16", func(_, K, F float64, m shape) float64 { return 12 + 4*K + 8*F + 4*m.a/m.H + 8/m.H }},
		{"Llama", llama, "arch: llama, dtype: bf16", func(_, K, F float64, m shape) float64 { return 20 + 4*K + 8*F + 4*m.a/m.H + 8/m.H }},
		{"Llama eager", llama, "arch: llama, attention: eager, dtype: bf16", func(A, _, F float64, m shape) float64 { return 24 + 8*F + 6*A + 8/m.H }},
		{"Llama eager fp32", llama, "arch: llama, attention: eager, dtype: fp32", func(A, _, F float64, m shape) float64 { return 40 + 16*F + 4*A + 8/m.H }},
		{"Llama autocast", llama, "arch: llama, dtype: amp-bf16", func(_, K, F float64, m shape) float64 { return 30 + 4*K + 8*F + 4*m.a/m.H + 8/m.H }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.m
			p := compileYAML(t, fmt.Sprintf("{L: 2, S: %v, B: %v, H: %v, heads: %v, kv_heads: %v, ffn: %v, vocab: 100, %s}", m.S, m.B, m.H, m.a, m.k, m.f, tt.doc))
			got, _ := savedBy(p, 1)
			want := tt.form(m.a*m.S/m.H, m.k/m.a, m.f/m.H, m) * m.S * m.B * m.H
			if strings.Contains(tt.doc, "llama") { // cos and sin, in fp32 where weights are
				e := 2.0
				if !strings.Contains(tt.doc, "dtype: bf16") {
					e = 4
				}
				want += 2 * m.S * m.H / m.a * e
			}
			// a block's scalars (seeds of random numbers and the like) are the only bytes that the form leaves out
			if d := float64(got) - want; math.Abs(d) > 64 {
				t.Errorf("%d, want %.0f: %+.0f, %+.4f a token and hidden unit", got, want, d, d/(m.S*m.B*m.H))
			}
		})
	}
}

// Steps of whole models as PyTorch 2.14 was seen to run them: no optimizer, GPT-2 with fused GELU and without
// dropout, flash attention. All numbers are bytes above parameters, token ids and labels, with every tensor rounded up
// to 512 bytes. They are of models put together from the blocks; where Hugging Face's class holds more (its forward has
// the token embeddings in a local, 2·n bytes, while the layers run), the forward peak is left out; with checkpoints,
// Llama's class also holds the position ids that its layers are given, 8·S bytes.
func TestWholeModels(t *testing.T) {
	const (
		gpt2      = "{arch: gpt2, L: 4, H: 768, heads: 12, S: 1024, B: 4, dtype: bf16, activation: gelu_tanh, dropout: 0, train: {optimizer: none, keep_logits: %v}}"
		wideHead  = "{arch: llama, L: 4, H: 1024, heads: 16, kv_heads: 4, ffn: 2816, vocab: 128256, tied: false, S: 2048, B: 2, dtype: bf16, train: {optimizer: none, keep_logits: %v}}"
		smallHead = "{arch: llama, L: 16, H: 2048, heads: 16, kv_heads: 4, ffn: 5632, vocab: 1000, tied: false, S: 1024, B: 2, dtype: bf16, train: {optimizer: none, keep_logits: %v}}"
	)
	for _, tt := range []struct {
		name, doc                                         string
		keep                                              bool
		strategy                                          string
		params, beforeLoss, afterLoss, forward, back, end int64
	}{
		{"GPT-2", gpt2, true, "none", 135_473_664, 828_035_072, 1_651_479_552, 2_474_923_520, 3_298_268_160, 547_179_520},
		{"GPT-2", gpt2, false, "none", 135_473_664, 828_035_072, 0, 2_474_923_520, 2_886_562_816, 135_474_176},
		{"GPT-2", gpt2, true, "full", 135_473_664, 449_495_040, 1_272_939_520, 2_096_383_488, 2_919_728_128, 0},
		{"GPT-2", gpt2, false, "full", 135_473_664, 449_495_040, 0, 2_096_383_488, 2_508_022_784, 0},
		{"Llama, large vocabulary", wideHead, true, "none", 615_532_544, 1_807_372_288, 3_908_752_384, 6_010_131_968, 8_111_412_224, 1_666_206_208},
		{"Llama, large vocabulary", wideHead, false, "none", 615_532_544, 1_807_372_288, 0, 6_010_131_968, 7_060_739_072, 615_533_056},
		{"Llama, large vocabulary", wideHead, true, "full", 615_532_544, 1_118_322_688, 3_219_702_784, 5_321_082_368, 7_422_362_624, 0},
		{"Llama, large vocabulary", wideHead, false, "full", 615_532_544, 1_118_322_688, 0, 5_321_082_368, 6_371_689_472, 0},
		{"Llama, small vocabulary", smallHead, false, "none", 1_451_167_744, 2_926_239_744, 2_934_449_152, 0, 2_993_345_536, 1_451_168_256},
		{"Llama, small vocabulary", smallHead, false, "full", 1_451_167_744, 172_400_640, 180_610_048, 0, 1_623_898_112, 0},
	} {
		t.Run(fmt.Sprintf("%s/%s/keep=%v", tt.name, tt.strategy, tt.keep), func(t *testing.T) {
			p := inBlocks(compileYAML(t, fmt.Sprintf(tt.doc, tt.keep)).Graph)
			tl := judgeNamed(t, p, tt.strategy)
			static := int64(tl.Parameters + tl.Inputs)
			if int64(tl.Parameters) != tt.params {
				t.Errorf("parameters %d, want %d", tl.Parameters, tt.params)
			}
			ids := int64(0)
			if tt.strategy == "full" && strings.HasPrefix(tt.name, "Llama") {
				ids = 8 * int64(build.SpecOf(p.Graph).S)
			}
			check := func(what string, got, want int64) {
				got -= ids
				if want != 0 && got-static != want {
					t.Errorf("%s: %d, want %d: %+d", what, got-static, want, got-static-want)
				}
			}
			r := tl.Second
			check("before the loss", beforeLoss(t, p, tt.strategy), tt.beforeLoss)
			check("after the loss", r.AfterForward, tt.afterLoss)
			check("forward peak", r.Peak[Forward].Bytes, tt.forward)
			check("backward peak", r.Peak[Backward].Bytes, tt.back)
			held := int64(0) // the loss, and the output if the caller keeps it
			for _, st := range p.late[1] {
				held += p.Graph.Storages[st].Bytes
			}
			check("end of backward", r.AfterBackward+held, tt.end)
		})
	}
}

// beforeLoss is what is alive when the model's output is there and the loss has not begun: just before its first
// tensor, the fp32 copy of the logits.
func beforeLoss(t *testing.T, p *Program, strategy string) int64 {
	t.Helper()
	pl, err := plan.Named(strategy, p.Graph.Layers)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Lower(p, pl)
	if err != nil {
		t.Fatal(err)
	}
	o := &logitsCast{p: p}
	if err := Observe(s, 1, o); err != nil {
		t.Fatal(err)
	}
	return o.before
}

// logitsCast notes what is alive before the head's first copy of the logits.
type logitsCast struct {
	p      *Program
	before int64
}

func (*logitsCast) Pass(Pass, *Instant)      {}
func (*logitsCast) Block(int32, *Instant)    {}
func (*logitsCast) Free(ID, int64, *Instant) {}
func (o *logitsCast) Alloc(_ ID, bytes int64, at *Instant) {
	if g := o.p.Graph; at.Phase == Forward && o.before == 0 && at.Op >= 0 && strings.HasPrefix(g.Blocks[g.Ops[at.Op].Block].Label, "head") && g.Ops[at.Op].Row().Aten == "aten._to_copy" {
		if g.Storages[o.p.ops[at.Op].alloc].Role == graph.Logits {
			o.before = at.Bytes - bytes
		}
	}
}

// inBlocks is a program whose storages are blocks of whole 512 bytes, as CUDA's caching allocator hands them out.
func inBlocks(g *graph.Graph) *Program {
	ceil := func(n int64) int64 { return (n + 511) / 512 * 512 }
	for i := range g.Storages {
		if st := &g.Storages[i]; st.Born != graph.None {
			st.Bytes = ceil(st.Bytes)
		}
	}
	p := Compile(g)
	for i := range p.tape.grads {
		p.tape.grads[i].bytes = ceil(p.tape.grads[i].bytes)
	}
	return p
}

// The same models as Hugging Face's classes, measured with tools/measure.py (no rounding).
func TestWholeClasses(t *testing.T) {
	const (
		gpt2  = "{arch: gpt2, L: 4, H: 768, heads: 12, S: 1024, B: 4, dtype: bf16, activation: gelu_tanh, dropout: 0, max_positions: 1024, train: {optimizer: none, keep_logits: %v}}"
		llama = "{arch: llama, L: 16, H: 2048, heads: 16, kv_heads: 4, ffn: 5632, vocab: 1000, tied: false, S: 1024, B: 2, dtype: bf16, train: {optimizer: none, keep_logits: %v}}"
	)
	for _, tt := range []struct {
		name, doc     string
		keep          bool
		strategy      string
		forward, back int64
	}{
		{"Llama", llama, false, "none", 4_406_899_328, 4_444_529_288},
		{"Llama", llama, false, "full", 1_671_934_208, 3_075_105_056},
		{"GPT-2", gpt2, true, "none", 2_610_457_224, 3_433_802_344},
		{"GPT-2", gpt2, false, "none", 2_610_457_224, 3_022_097_000},
		{"GPT-2", gpt2, true, "full", 2_231_921_192, 3_055_266_312},
		{"GPT-2", gpt2, false, "full", 2_231_921_192, 2_643_560_968},
	} {
		r := judgeNamed(t, compileYAML(t, fmt.Sprintf(tt.doc, tt.keep)), tt.strategy).Second
		if got := r.Peak[Forward].Bytes; got != tt.forward {
			t.Errorf("%s %s keep=%v: forward peak %d, want %d: %+d", tt.name, tt.strategy, tt.keep, got, tt.forward, got-tt.forward)
		}
		if got := r.Peak[Backward].Bytes; got != tt.back {
			t.Errorf("%s %s keep=%v: backward peak %d, want %d: %+d", tt.name, tt.strategy, tt.keep, got, tt.back, got-tt.back)
		}
	}
}

// GPT-2 with peft's adapters on its Conv1D layers, measured with tools/measure.py: six layers of width 512, 32000 words,
// 4 × 512 tokens, fp32 adapters of rank 16. With any checkpointing the token embedding's output requires grad.
func TestAdaptersOnConv1D(t *testing.T) {
	for _, tt := range []struct {
		dtype, attention, strategy, lora, optimizer string
		before, forward, back                       int64
	}{
		{"bf16", "sdpa", "none", "{r: 16, targets: [c_attn]}", "adamw", 783_220_936, 1_047_478_504, 1_307_492_552},
		{"bf16", "eager", "full", "{r: 16, dropout: 0.05, targets: [c_attn, c_proj, c_fc]}", "adamw", 494_293_192, 758_550_760, 1_018_564_808},
		{"amp-bf16", "sdpa", "none", "{r: 16, targets: [c_attn]}", "adamw", 1_087_373_512, 1_353_744_616, 1_611_645_128},
		{"fp32", "eager", "offload-inputs", "{r: 16, targets: [c_attn, c_proj, c_fc]}", "sgd", 680_235_016, 684_445_736, 1_204_506_632},
		{"fp16", "sdpa", "segments-2", "{r: 16, dropout: 0.1, targets: [c_attn]}", "adamw", 478_826_552, 743_084_120, 1_003_098_168},
	} {
		p := compileYAML(t, fmt.Sprintf("{arch: gpt2, L: 6, H: 512, heads: 8, vocab: 32000, max_positions: 1024, S: 512, B: 4, dtype: %s, attention: %s, checkpoint: %s, train: {optimizer: %s, lora: %s}}",
			tt.dtype, tt.attention, tt.strategy, tt.optimizer, tt.lora))
		r := judgeNamed(t, p, tt.strategy).Second
		if got := [3]int64{r.BeforeBackward, r.Peak[Forward].Bytes, r.Peak[Backward].Bytes}; got != [3]int64{tt.before, tt.forward, tt.back} {
			t.Errorf("%s %s %s: before backward, forward peak, backward peak are %d, want %d", tt.dtype, tt.attention, tt.strategy, got, [3]int64{tt.before, tt.forward, tt.back})
		}
	}
}
