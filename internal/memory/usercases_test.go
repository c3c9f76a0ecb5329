package memory

import (
	"fmt"
	"math"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// The tests of this file are public reports of people who trained transformers under a memory limit: what they
// measured or worked out, in the thread that each test names.

// programOf compiles a preset with other settings.
func programOf(t testing.TB, preset string, o model.Overrides) *Program {
	t.Helper()
	s, err := model.LoadPreset(preset)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Override(s, o); err != nil {
		t.Fatal(err)
	}
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Compile(g)
}

func at(b, s int) model.Overrides { return model.Overrides{Batch: &b, Seq: &s} }

// layerInputs sums the layer inputs that full checkpointing keeps: storages of the residual stream.
func layerInputs(t *testing.T, p *Program) (bytes unit.Bytes) {
	t.Helper()
	pl, err := plan.Named("full", p.Graph.Layers)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Lower(p, pl)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(build.SpecOf(p.Graph).B) * int64(build.SpecOf(p.Graph).S) * int64(build.SpecOf(p.Graph).H)
	for _, r := range s.Regions {
		for _, st := range r.Inputs {
			if b := p.Graph.Storages[st].Bytes; b == 2*n {
				bytes += unit.Bytes(b)
			}
		}
	}
	return bytes
}

// largest is the largest storage that ops of an ATen call make.
func largest(p *Program, aten string) unit.Bytes {
	var n int64
	for i := range p.Graph.Storages {
		if st := &p.Graph.Storages[i]; st.Born != graph.None && st.Name == aten {
			n = max(n, st.Bytes)
		}
	}
	return unit.Bytes(n)
}

func near(t *testing.T, what string, got, want unit.Bytes, tolerance float64) {
	t.Helper()
	if d := float64(got-want) / float64(want); math.Abs(d) > tolerance {
		t.Errorf("%s: %s, want %s: %+.2f %%", what, got.Both(), want.Both(), d*100)
	}
}

// karpathy/llm.c#478: in GPT-2 1558M, 48 layers of two LayerNorm outputs take 9600 MiB at 32 × 1024 tokens, and a
// GELU output takes 0.586 GiB a sequence.
func TestNormAndGELUOutputsOfGPT2(t *testing.T) {
	p := compileYAML(t, "{arch: gpt2, L: 48, H: 1600, heads: 25, S: 1024, B: 32, dtype: bf16, activation: gelu_tanh, dropout: 0}")
	var norms, gelus unit.Bytes
	for i := range p.Graph.Ops {
		op := &p.Graph.Ops[i]
		if p.Graph.Blocks[op.Block].Layer == graph.None {
			continue
		}
		switch op.Row().Aten {
		case "aten.native_layer_norm":
			norms += unit.Bytes(p.Graph.Bytes(p.Graph.Outputs(op)[0]))
		case "aten.gelu":
			gelus += unit.Bytes(p.Graph.Bytes(p.Graph.Outputs(op)[0]))
		}
	}
	if norms != 9600*unit.MiB {
		t.Errorf("norm outputs %s, want 9600 MiB", norms)
	}
	if want := 32 * unit.Bytes(48*1024*6400*2); gelus != want { // 0.586 GiB each
		t.Errorf("GELU outputs %s, want %s", gelus, want)
	}
}

// huggingface/transformers#48444: layer inputs kept by checkpointing. Eight layers of Qwen3 of width 1024 keep 128 MiB
// at 8192 tokens, and moving them to the host frees just that; Qwen3-8B keeps 36 GiB at 131072 tokens.
func TestLayerInputsKeptByCheckpointing(t *testing.T) {
	small := compileYAML(t, "{arch: qwen3, L: 8, H: 1024, heads: 16, kv_heads: 8, head_dim: 128, ffn: 3072, vocab: 1000, S: 8192, B: 1, dtype: bf16}")
	if got := layerInputs(t, small); got != 128*unit.MiB {
		t.Errorf("8 layers keep %s, want 128 MiB", got)
	}
	kept := judgeNamed(t, small, "full").Second
	moved := judgeNamed(t, small, "offload-inputs").Second
	if got := unit.Bytes(kept.BeforeBackward - moved.BeforeBackward); got != 128*unit.MiB {
		t.Errorf("moving them to the host frees %s, want 128 MiB", got)
	}
	if got := layerInputs(t, programOf(t, "qwen3-8b", at(1, 131072))); got != 36*unit.GiB {
		t.Errorf("Qwen3-8B keeps %s, want 36 GiB", got)
	}
}

// karpathy/llm.c#773: the residual stream of Llama-3-405B at 131072 tokens is 4 GiB a layer, 504 GiB in all.
func TestResidualStreamOf405B(t *testing.T) {
	if got := layerInputs(t, programOf(t, "llama-3.1-405b", at(1, 131072))); got != 504*unit.GiB {
		t.Errorf("%s, want 504 GiB", got)
	}
}

// Sizes of one logits tensor from OOM messages: NVIDIA-NeMo/Automodel#2609 and #2336 (the loss's fp32 copy, vocabulary
// 151936), modelscope/ms-swift#6966 (32768 tokens), NovaSky-AI/SkyRL#1610 (a chunk of 1024 tokens), and
// jiaweizzhao/GaLore#57 (31.25 GiB in bf16 for 256 × 2048 tokens and 32000 words).
func TestLogitsOfOOMMessages(t *testing.T) {
	for _, tt := range []struct {
		tokens int
		want   unit.Bytes // as printed
		digits float64
	}{
		{84_800, 48 * unit.GiB, 0.001},
		{32_860, 186 * unit.GiB / 10, 0.002},
		{11_555, 654 * unit.GiB / 100, 0.001},
		{32_768, 1855 * unit.GiB / 100, 0.001},
		{1024, 580 * unit.GiB / 1000, 0.001},
	} {
		p := programOf(t, "qwen3-4b", at(1, tt.tokens))
		near(t, fmt.Sprintf("%d tokens", tt.tokens), largest(p, "aten._to_copy"), tt.want, tt.digits)
	}
	p := compileYAML(t, "{arch: llama, L: 1, H: 64, heads: 1, vocab: 32000, S: 2048, B: 256, dtype: bf16}")
	if got := largest(p, "aten.mm"); got != 32000*unit.MiB {
		t.Errorf("bf16 logits %s, want 31.25 GiB", got)
	}
}

// NVIDIA/Megatron-LM#1225: with flash attention there is no score tensor, so recomputing the attention core saves next
// to nothing (25.52 to 24.94 GB there) and is not faster. With scores in memory it saves 5·a·s²·b bytes a layer
// (Korthikanti et al. 2022): softmax, its dropout's mask and its output.
func TestSelectiveRecomputation(t *testing.T) {
	doc := "{arch: gpt2, L: 24, H: 2048, heads: 16, S: 2048, B: 4, dtype: bf16, activation: gelu_tanh, dropout: 0.1, attention: %s}"
	flash := compileYAML(t, fmt.Sprintf(doc, "sdpa"))
	none, selective := judgeNamed(t, flash, "none"), judgeNamed(t, flash, "selective")
	if saved := none.Peak.Bytes - selective.Peak.Bytes; saved < 0 || float64(saved) > 0.03*float64(none.Peak.Bytes) {
		t.Errorf("flash: selective saves %s of %s, want about nothing", unit.Bytes(saved), unit.Bytes(none.Peak.Bytes))
	}
	eager := compileYAML(t, fmt.Sprintf(doc, "eager"))
	none, selective = judgeNamed(t, eager, "none"), judgeNamed(t, eager, "selective")
	saved := none.Second.BeforeBackward - selective.Second.BeforeBackward
	want := int64(24 * 5 * 16 * 2048 * 2048 * 4)
	want -= 2 * 2048 * 2048 * 4 // the causal mask [B, 1, S, S], which the checkpoints hold and autograd does not need
	if saved != want {
		t.Errorf("eager: selective saves %d, want %d: %+d", saved, want, saved-want)
	}
}

// deepspeedai/DeepSpeedExamples#332: OPT-1.3B on 4 × 64 tokens needs as much with checkpointing as without (6.34 and
// 6.41 GB): states are everything. At a larger shape it matters (44.23 and 11.76 GB).
func TestCheckpointingOfFewTokensSavesNothing(t *testing.T) {
	p := programOf(t, "opt-1.3b", at(4, 64))
	none, full := judgeNamed(t, p, "none").Peak.Bytes, judgeNamed(t, p, "full").Peak.Bytes
	if d := unit.Bytes(none - full); d < 0 || d > 100*unit.MB {
		t.Errorf("4 × 64 tokens: saves %s, want under 0.1 GB", d.Both())
	}
	p = programOf(t, "opt-1.3b", at(16, 512))
	none, full = judgeNamed(t, p, "none").Peak.Bytes, judgeNamed(t, p, "full").Peak.Bytes
	if 10*full > 7*none {
		t.Errorf("16 × 512 tokens: %s with checkpointing, %s without; want far less", unit.Bytes(full).Both(), unit.Bytes(none).Both())
	}
}

// pytorch/pytorch#78731: eight Linear(256, 256) on 137 rows. A linear keeps only its input, and so does a checkpoint
// around it: the peak does not fall.
func TestCheckpointingSingleLinearsSavesNothing(t *testing.T) {
	p := compileYAML(t, "{arch: custom, L: 8, H: 256, heads: 1, S: 137, B: 1, dtype: fp32, ops: [linear H]}")
	none, full := judgeNamed(t, p, "none").Second, judgeNamed(t, p, "full").Second
	if full.Peak[Backward].Bytes < none.Peak[Backward].Bytes || full.BeforeBackward < none.BeforeBackward {
		t.Errorf("backward peak %d and %d, before backward %d and %d (none, full)", none.Peak[Backward].Bytes, full.Peak[Backward].Bytes, none.BeforeBackward, full.BeforeBackward)
	}
}

// NVIDIA/Megatron-LM#1368: one group of all layers is recomputed at once, so that the largest batch is that of no
// checkpointing.
func TestOneGroupOfAllLayersSavesNothing(t *testing.T) {
	p := programOf(t, "llama-2-7b", at(1, 4096))
	none, group := judgeNamed(t, p, "none").Second.Peak[Backward].Bytes, judgeNamed(t, p, "segments-32").Second.Peak[Backward].Bytes
	if float64(group) < 0.97*float64(none) {
		t.Errorf("one group peaks at %s, no checkpointing at %s", unit.Bytes(group), unit.Bytes(none))
	}
}

// tatsu-lab/stanford_alpaca#220: 7B full fine-tuning with fp32 weights needs 16 bytes a parameter, 107.8 GB, whatever
// is checkpointed. meta-pytorch/torchtune#389: in bf16 27 GB with SGD, 54 GB with AdamW looped over the parameters, and
// about one copy of the 13.5 GB of weights more in its foreach form.
func TestStatesOf7B(t *testing.T) {
	step := func(precision, optimizer string) unit.Bytes {
		o := at(1, 128)
		o.Precision, o.Optimizer = precision, optimizer
		p := programOf(t, "llama-2-7b", o)
		return unit.Bytes(judgeNamed(t, p, "full").Second.Peak[Optimizer].Bytes)
	}
	near(t, "amp, AdamW fused", step("amp-bf16", "adamw-fused"), 107_800*unit.MB, 0.001)
	near(t, "bf16, SGD", step("bf16", "sgd"), 27*unit.GB, 0.01)
	near(t, "bf16, AdamW", step("bf16", "adamw-loop"), 54*unit.GB, 0.01)
	near(t, "bf16, AdamW foreach", step("bf16", "adamw"), 54*unit.GB+13_510*unit.MB, 0.01)
}

// modelscope/ms-swift, docs/source/LLM/Benchmark.md at 069db578ee: memory that one A100 of 80 GB showed with Hugging
// Face's Trainer (which frees the logits), micro batch 1, checkpointing and flash attention. LoRA of rank 8 is on
// queries, keys and values. Samples are cut to the length, and mostly longer. Full fine-tuning of Qwen-7B takes its
// foreach AdamW's buffer of one copy of the weights, and that of 14B ran out of memory.
func TestDeviceMemoryOfSwift(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	const (
		yi6     = "arch: llama, L: 32, H: 4096, heads: 32, kv_heads: 4, ffn: 11008, vocab: 64000, "
		yi34    = "arch: llama, L: 60, H: 7168, heads: 56, kv_heads: 8, ffn: 20480, vocab: 64000, "
		mistral = "arch: mistral, L: 32, H: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 36608, " // OpenBuddy's vocabulary
		qwen7   = "arch: qwen2, L: 32, H: 4096, heads: 32, kv_heads: 32, ffn: 11008, vocab: 151936, "
		qwen14  = "arch: qwen2, L: 40, H: 5120, heads: 40, kv_heads: 40, ffn: 13696, vocab: 152064, "
		lora    = ", lora: {r: 8, alpha: 32, dropout: 0.05, dtype: fp32, targets: [q_proj, k_proj, v_proj]}"
	)
	for _, tt := range []struct {
		doc   string
		s     int
		train string
		mib   unit.Bytes // 0: out of memory
	}{
		{yi6, 2048, lora, 14386},
		{yi34, 2048, lora, 70482},
		{mistral, 2048, lora, 16618},
		{qwen7, 2048, lora, 19362},
		{qwen14, 2048, lora, 32186},
		{qwen7, 512, "", 75213},
		{qwen7, 1024, "", 75627},
		{qwen14, 512, "", 0},
	} {
		p := compileYAML(t, fmt.Sprintf("{%s S: %d, B: 1, tied: false, dtype: bf16, attention: flash2, checkpoint: full, train: {grad_accum: 16, keep_logits: false%s}}", tt.doc, tt.s, tt.train))
		tensors := unit.Bytes(judgeNamed(t, p, "full").Peak.Bytes)
		reserve := sheet.Reserve(tensors)
		least, most := tensors+gpu.Least(reserve), tensors+gpu.Total(reserve)
		if shown := tt.mib * unit.MiB; shown == 0 && least <= sheet.TotalBytes || shown != 0 && (shown < least || shown > most) {
			t.Errorf("%s%d tokens%s: shown %s, want %s to %s", tt.doc, tt.s, tt.train, shown.Both(), least.Both(), most.Both())
		}
	}
}

// VITA-MLLM/Long-VITA#7: if each doubling of the length multiplies the activations by 3 to 4, an S × S term rules and
// flash attention is not in use; with it they double.
func TestLengthGrowsQuadraticallyOnlyWithScores(t *testing.T) {
	grow := func(attention string, s int) float64 {
		bytes := func(s int) float64 {
			o := at(1, s)
			o.Attention = attention
			a, _ := savedBy(programOf(t, "llama-2-7b", o), 1)
			return float64(a)
		}
		return bytes(2*s) / bytes(s)
	}
	if r := grow("eager", 8192); r < 3 || r > 4 {
		t.Errorf("eager: ×%.2f", r)
	}
	if r := grow("sdpa", 8192); math.Abs(r-2) > 1e-6 { // but for seeds
		t.Errorf("sdpa: ×%.4f", r)
	}
}

// Lightning-AI/litgpt, tutorials/resource-tables.md at commit 8641822: LoRA of rank 8 on queries and values in pure bf16,
// batches as long as the longest sample, max_memory_allocated on one A100. LitGPT's GELU is one kernel, where Hugging
// Face's Phi composes it (gelu_new): 44 % more at batch 4. Its q, k and v are one projection, whose output the values
// keep alive: 4 bytes a token and hidden unit of a layer that Hugging Face's Llama does not hold, 3 to 5 % here.
func TestLoRAOfLitGPT(t *testing.T) {
	lora := func(targets string) *string {
		l := "r=8,alpha=16,dropout=0.05,dtype=bf16,targets=" + targets
		return &l
	}
	peak := func(p *Program) unit.Bytes { return unit.Bytes(judgeNamed(t, p, "none").Peak.Bytes) }
	preset := func(name string, batch, seq int, activation string) unit.Bytes {
		o := at(batch, seq)
		o.Precision, o.Activation, o.LoRA = "bf16", activation, lora("q_proj+v_proj")
		return peak(programOf(t, name, o))
	}
	near(t, "phi-1.5, batch 1", preset("phi-1.5", 1, 1044, "gelu"), 4820*unit.MB, 0.01)
	near(t, "phi-1.5, batch 2", preset("phi-1.5", 2, 1044, "gelu"), 6760*unit.MB, 0.01)
	near(t, "phi-1.5, batch 4", preset("phi-1.5", 4, 1044, "gelu"), 10_680*unit.MB, 0.01)
	for batch, want := range map[int]unit.Bytes{1: 9690 * unit.MB, 2: 12_100 * unit.MB, 4: 16_920 * unit.MB} {
		p := compileYAML(t, fmt.Sprintf("{arch: gpt-neox, L: 16, S: 1034, H: 4096, B: %d, heads: 32, ffn: 16384, vocab: 50432, dtype: bf16, "+
			"rotary_fraction: 0.25, parallel_residual: true, tied: false, dropout: 0, train: {lora: {r: 8, alpha: 16, dropout: 0.05, dtype: bf16, targets: [query_key_value]}}}", batch))
		near(t, fmt.Sprintf("StableLM-alpha-3B, batch %d", batch), peak(p), want, 0.01)
	}
	near(t, "Llama-2-7B, batch 1", preset("llama-2-7b", 1, 1304, ""), 21_300*unit.MB, 0.05)
	near(t, "Llama-2-7B, batch 2", preset("llama-2-7b", 2, 1304, ""), 29_070*unit.MB, 0.05)
	near(t, "Llama-2-13B, batch 1", preset("llama-2-13b", 1, 1304, ""), 38_120*unit.MB, 0.05)
}

// meta-pytorch/torchtune README at bd2a0fc7c3: full fine-tuning of Llama 3.2 3B in pure bf16 on packed 2 × 4096 tokens
// peaks at 60.0 GiB without checkpointing.
func TestFullFinetuningOf3B(t *testing.T) {
	o := at(2, 4096)
	o.Precision = "bf16"
	near(t, "no checkpointing", unit.Bytes(judgeNamed(t, programOf(t, "llama-3.2-3b", o), "none").Peak.Bytes), 60*unit.GiB, 0.01)
}
