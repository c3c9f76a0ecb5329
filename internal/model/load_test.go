package model

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
)

// minimal is the least that a spec may say: GPT-2 small.
const minimal = "L: 12\nS: 1024\nH: 768\nB: 8\nheads: 12\ndtype: bf16\n"

func TestLoadTakesDefaultsOfArch(t *testing.T) {
	s, err := Load("dir/mine.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	// GPT-2 small as published: openai-community/gpt2/config.json.
	want := &spec.Spec{
		Name: "mine", Arch: "gpt2", L: 12, S: 1024, H: 768, B: 8, Heads: 12, KVHeads: 12, HeadDim: 64, FFN: 3072, Vocab: 50257, Precision: "bf16",
		Attention: "sdpa", Checkpoint: "none", Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new", Positions: "learned", MaxS: 1024,
		Bias: spec.Bias{QKV: true, Out: true, MLP: true, Norm: true}, Dropout: spec.Dropout{Embedding: 0.1, Attention: 0.1, Residual: 0.1}, Tied: true,
		Train:    spec.Train{Optimizer: "adamw", KeepLogits: true, LossChunks: 1, GradAccum: 1, Finetune: "full"},
		Parallel: spec.Parallel{DP: 1, TP: 1, CP: 1, PP: 1, EP: 1},
		Defaults: []string{
			"arch gpt2", "kv_heads 12 (one a query head)", "head_dim 64 (H/heads)", "ffn 3072 (4H)", "vocab 50257", "attention sdpa", "norm layernorm",
			"norm_order pre", "activation gelu_new", "learned positions", "max_positions 1024", "dropout 0.1", "tied", "optimizer adamw",
			"logits kept during backward", "bias in qkv, out, mlp, norm",
		},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestLoadAccepts(t *testing.T) {
	tests := []struct {
		name, doc string
		check     func(*spec.Spec) bool
	}{
		{"precision is dtype", strings.Replace(minimal, "dtype", "precision", 1), func(s *spec.Spec) bool { return s.Precision == dtype.PureBF }},
		{"underscore for hyphen", strings.Replace(minimal, "bf16", "amp_bf16", 1), func(s *spec.Spec) bool { return s.Precision == dtype.AmpBF }},
		{"torch's dtype name", strings.Replace(minimal, "bf16", "float16", 1), func(s *spec.Spec) bool { return s.Precision == dtype.PureFP }},
		{"optimizer with underscore", minimal + "train: {optimizer: adamw_fused}\n", func(s *spec.Spec) bool { return s.Train.Optimizer == "adamw-fused" }},
		{"one dropout for all", minimal + "dropout: 0\n", func(s *spec.Spec) bool { return s.Dropout == spec.Dropout{} }},
		{"one dropout, inside the MLP as well", minimal + "arch: t5\ndropout: 0\n", func(s *spec.Spec) bool { return s.Dropout == spec.Dropout{} }},
		{"a fused norm", minimal + "arch: granite\nnorm: rmsnorm-fused\n", func(s *spec.Spec) bool { return s.Norm == "rmsnorm-fused" }},
		{"longer than the class default", strings.Replace(minimal, "1024", "4096", 1), func(s *spec.Spec) bool { return s.MaxS == 4096 }},
		{"own head_dim", minimal + "arch: qwen3\nhead_dim: 128\nkv_heads: 4\n", func(s *spec.Spec) bool { return s.HeadDim == 128 && s.KVHeads == 4 && s.QKNorm }},
		{"Llama's ffn rule", strings.Replace(minimal, "H: 768", "H: 5136", 1) + "arch: llama\n", func(s *spec.Spec) bool { return s.FFN == 13824 }}, // Llama 2 13B's, H 5120
		{"flash attention by its Hugging Face name", minimal + "attention: flash_attention_2\n", func(s *spec.Spec) bool { return s.Attention == "flash2" }},
		{"LoRA defaults", minimal + "arch: llama\ntrain: {lora: {r: 16}}\n", func(s *spec.Spec) bool {
			return s.Train.Finetune == "lora" && reflect.DeepEqual(*s.Train.LoRA, spec.LoRA{Rank: 16, Alpha: 32, DType: "fp32", Targets: []string{"q_proj", "v_proj"}})
		}},
		{"all-linear", minimal + "train: {lora: {r: 16, targets: [all-linear]}}\n", func(s *spec.Spec) bool {
			return reflect.DeepEqual(s.Train.LoRA.Targets, []string{"c_attn", "c_proj", "c_fc"})
		}},
		{"torch-encoder", minimal + "arch: torch_encoder\nneed_weights: true\nnorm_order: pre\n", func(s *spec.Spec) bool {
			return s.Arch == "torch-encoder" && s.FFN == 2048 && s.Activation == "relu" && s.NeedWeights
		}},
		{"custom", minimal + "arch: custom\nops: [linear 4H, gelu, linear H]\n", func(s *spec.Spec) bool { return len(s.Ops) == 3 }},
		{"written as JSON", `{"L": 2, "S": 8, "H": 16, "B": 1, "heads": 2, "dtype": "fp32"}`, func(s *spec.Spec) bool { return s.L == 2 }},
		{"anchors", "L: &n 12\nS: 64\nH: 768\nB: 1\nheads: *n\ndtype: bf16\n", func(s *spec.Spec) bool { return s.Heads == 12 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Load("x.yaml", []byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if !tt.check(s) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Each bad document and all that is said of it: "line:col: message" a line.
func TestLoadRefuses(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(minimal, old, new, 1) }
	tests := []struct{ name, doc, want string }{
		{"near-miss names", "num_layers: 12\nseq_len: 1024\nhidden_size: 768\nbatch_size: 8\nn_head: 12\ntorch_dtype: bf16\nd_ff: 3072\n", `
1:1: unknown key "num_layers" (did you mean "L"?)
2:1: unknown key "seq_len" (did you mean "S"?)
3:1: unknown key "hidden_size" (did you mean "H"?)
4:1: unknown key "batch_size" (did you mean "B"?)
5:1: unknown key "n_head" (did you mean "heads"?)
6:1: unknown key "torch_dtype" (did you mean "dtype"?)
7:1: unknown key "d_ff" (did you mean "ffn"?)`},
		{"typos", minimal + "hiden: 3\nvocabb: 7\nL1: 3\n", `
7:1: unknown key "hiden" (did you mean "H"?)
8:1: unknown key "vocabb" (did you mean "vocab"?)
9:1: unknown key "L1": known are name, arch, L, S, H, B, heads, kv_heads, head_dim, ffn, vocab, decoder_L, decoder_S, dtype, weights, autocast, attention, checkpoint, norm, norm_order, plain_norm, qk_norm, activation, gated, positions, rotary_fraction, max_positions, bias, dropout, tied, parallel_residual, normed_residual, new_decoder, shared_norm, sliding_window, layer_types, rotary_layers, logit_softcap, attention_softcap, unscaled_attention, layer_scaled_attention, upcast_attention, logit_scale, moe, image, labels, labels_of, token_types, embedding_dim, need_weights, causal, final_norm, ops, train, parallel`},
		{"key of a section outside it", minimal + "optimizer: adamw\n", `7:1: unknown key "optimizer" (did you mean "train.optimizer"?)`},
		{"missing", "L: 12\nS: 1024\nH: 768\n", `1:1: missing B, heads, dtype: a spec needs L, S, H, B, heads, dtype`},
		{"missing and more", "L: 12\nparallel: {tp: 8}\nS: 8k\n", "1:1: missing H, B, heads, dtype: a spec needs L, S, H, B, heads, dtype\n2:16: parallel.tp: 8 is not modelled yet: only 1 is\n3:4: S: \"8k\" is a word: write 8192"},
		{"no kernel for its norm", minimal + "arch: gemma\nnorm: rmsnorm-fused\n", `8:7: norm rmsnorm-fused does not suit arch gemma, which takes rmsnorm alone, of its own kind, for which no fused kernel is modelled`},
		{"another norm", minimal + "norm: rmsnorm\n", `7:7: norm rmsnorm does not suit arch gpt2, which takes layernorm`},
		{"another activation", minimal + "arch: bloom\nactivation: relu\n", `8:13: activation relu does not suit arch bloom, which has its own gelu_tanh`},
		{"half a pair", minimal + "arch: llama\nhead_dim: 33\n", `5:8: head_dim 33 is odd: rotary positions turn pairs of a head's elements`},
		{"zero", with("L: 12", "L: 0"), `1:4: L: 0, but it is a whole number of at least 1`},
		{"negative", with("B: 8", "B: -8"), `4:4: B: -8, but it is a whole number of at least 1`},
		{"fraction", with("768", "4096.5"), `3:4: H: 4096.5, but it is a whole number of at least 1`},
		{"whole real", with("768", "768.0"), `3:4: H: 768.0 is a real number: write 768`},
		{"exponent", with("768", "1e3"), `3:4: H: 1e3 is a real number: write 1000`},
		{"string", with("768", `"768"`), `3:4: H: "768" is a word: write 768`},
		{"k", with("1024", "8k"), `2:4: S: "8k" is a word: write 8192`},
		{"K with i", with("1024", "128Ki"), `2:4: S: "128Ki" is a word: write 131072`},
		{"thousands", with("1024", "1,024"), `2:4: S: "1,024" is a word: write 1024`},
		{"boolean for a count", with("B: 8", "B: true"), `4:4: B: true is a truth value, but it is a whole number of at least 1`},
		{"yes for a truth", minimal + "tied: maybe\n", `7:7: tied: "maybe", but it is true or false`},
		{"not a number", with("768", ".nan"), `3:4: H: .nan, but it is a whole number of at least 1`},
		{"infinity", minimal + "dropout: {attention: .inf}\n", `7:22: dropout.attention: .inf, but it is a number from 0 to below 1`},
		{"NaN dropout", minimal + "dropout: .nan\n", `7:10: dropout.embedding: .nan, but it is a number from 0 to below 1`},
		{"nothing", with("768", ""), `3:3: H has no value: it is a whole number of at least 1`},
		{"beyond 64 bits", with("768", "99999999999999999999"), `3:4: H: 99999999999999999999 is out of range`},
		{"octal", with("1024", "010"), `2:4: S: 010 starts with 0, which some readers take for octal: write 10`},
		{"octal probability", minimal + "dropout: {mlp: 00}\n", `7:16: dropout.mlp: 00 starts with 0, which some readers take for octal: write 0`},
		{"text that runs backwards", minimal + "name: \"x\\u202ey\"\n", `7:7: the character U+202E changes the direction of the text around it: remove it`},
		{"beyond counts", with("768", "9999999999999999"), `3:4: H: 9999999999999999 is out of range`},
		{"duplicate", minimal + "S: 512\n", `7:1: S is given twice (first in line 2)`},
		{"dtype and precision", minimal + "precision: fp16\n", `7:1: precision is given twice (first in line 6)`},
		{"list for a map", minimal + "train: [adamw]\n", `7:8: train is a map such as {optimizer: adamw}, not a list`},
		{"word for a map", minimal + "parallel: 8\n", `7:11: parallel is a map such as {tp: 1}, not "8"`},
		{"map for a number", with("768", "{a: 1}"), `3:4: H is a whole number of at least 1, not a map`},
		{"list document", "- L: 12\n", `1:1: a spec is a map of keys such as L: 12, not a list`},
		{"word document", "gpt2\n", `1:1: a spec is a map of keys such as L: 12, not "gpt2"`},
		{"heads do not divide", with("heads: 12", "heads: 7"), `5:8: heads 7 does not divide H 768: choose heads that do, or give head_dim`},
		{"more heads than H", with("heads: 12", "heads: 1000"), `5:8: heads 1000 does not divide H 768: choose heads that do, or give head_dim`},
		{"kv_heads do not divide", minimal + "arch: llama\nkv_heads: 5\n", `8:11: kv_heads 5 does not divide heads 12`},
		{"no groups in GPT-2", minimal + "kv_heads: 4\n", `7:11: kv_heads: arch gpt2 has 12 only`},
		{"no experts in Llama", minimal + "arch: llama\nmoe: {experts: 8, top_k: 2}\n", "8:16: moe.experts: arch llama has none\n8:26: moe.top_k: arch llama has none"},
		{"a last norm after OPT's post norms", minimal + "arch: opt\nnorm_order: post\nfinal_norm: true\n", `9:13: final_norm: OPT has none where norms follow the sublayers (norm_order post)`},
		{"vocab 0", minimal + "vocab: 0\n", `7:8: vocab: 0, but it is a whole number of at least 1`},
		{"tied and untied", minimal + "tied: true\nuntied: true\n", "8:1: unknown key \"untied\" (did you mean \"tied: false\"?)\n8:1: tied and untied are given together: write one of tied: true, tied: false"},
		{"dtype typo", with("bf16", "bfloat"), `6:8: dtype: "bfloat" is not one of fp32, bf16, fp16, amp-bf16, amp-fp16`},
		{"dtype swapped", with("bf16", "bf61"), `6:8: dtype: "bf61" is not one of fp32, bf16, fp16, amp-bf16, amp-fp16 (did you mean "bf16"?)`},
		{"fp8", with("bf16", "fp8"), `6:8: dtype: fp8 is not modelled: it is one of fp32, bf16, fp16, amp-bf16, amp-fp16`},
		{"optimizer", minimal + "train: {optimizer: adam8bit}\n", `7:20: train.optimizer: "adam8bit" is not one of adamw, adamw-loop, adamw-fused, sgd, sgd-momentum, rmsprop, adamw-8bit, lion-8bit, none (did you mean "adamw-8bit"?)`},
		{"attention auto", minimal + "attention: auto\n", `7:12: attention: auto names no kernel, and the kernel decides whether S×S scores exist: write one of eager, sdpa, math, flash2`},
		{"attention flash", minimal + "attention: flash\n", `7:12: attention: flash is not one of eager, sdpa, math, flash2 (did you mean "sdpa", which takes PyTorch's flash kernel, or "flash2", the flash-attn package?)`},
		{"arch", minimal + "arch: mamba\n", `7:7: arch "mamba" is not modelled: modelled are gpt2, llama, mistral, qwen2, qwen3, gpt-neox, opt, bert, roberta, xlm-roberta, camembert, distilbert, electra, vit, mixtral, qwen2-moe, qwen3-moe, gpt-oss, phi, phi3, gemma, gemma2, gemma3-text, smollm3, glm4, olmo2, olmo3, starcoder2, falcon, bloom, granite, cohere, t5, mt5, torch-encoder, custom`},
		{"labels_of of another class", minimal + "arch: llama\nlabels: 2\nlabels_of: span\n", `9:12: labels_of span: arch llama has no such head`},
		{"arch typo", minimal + "arch: lama\n", `7:7: arch "lama" is not modelled: modelled are gpt2, llama, mistral, qwen2, qwen3, gpt-neox, opt, bert, roberta, xlm-roberta, camembert, distilbert, electra, vit, mixtral, qwen2-moe, qwen3-moe, gpt-oss, phi, phi3, gemma, gemma2, gemma3-text, smollm3, glm4, olmo2, olmo3, starcoder2, falcon, bloom, granite, cohere, t5, mt5, torch-encoder, custom (nearest: "llama")`},
		{"bias off where the class has it", minimal + "bias: false\n", `7:7: bias: false does not suit arch gpt2: give its places apart`},
		{"custom experts", minimal + "arch: custom\nops: [gelu]\nmoe: {experts: 4}\n", `9:6: moe needs experts and top_k, such as {experts: 8, top_k: 2}`},
		{"LoRA without rank", minimal + "train: {lora: {alpha: 8}}\n", `7:15: train.lora needs r, the rank, such as {r: 16}`},
		{"unknown LoRA target", minimal + "train: {lora: {r: 8, targets: [q_porj]}}\narch: llama\n", `7:31: train.lora.targets: "q_porj" is no linear layer of llama; known are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head, all-linear (did you mean "q_proj"?)`},
		{"LoRA rank 0", minimal + "train: {lora: {r: 0}}\n", `7:19: train.lora.r: 0, but it is a whole number of at least 1`},
		{"LoRA rank above H", minimal + "train: {lora: {r: 1000}}\n", `7:19: train.lora.r 1000: the rank is from 1 to H, 768`},
		{"LoRA's names", minimal + "train: {lora: {rank: 8, lora_alpha: 4}}\n", "7:16: unknown key \"train.lora.rank\" (did you mean \"r\"?)\n7:25: unknown key \"train.lora.lora_alpha\" (did you mean \"alpha\"?)"},
		{"lora without lora", minimal + "train: {finetune: lora}\n", `7:19: finetune: lora needs train.lora, such as {r: 16}`},
		{"full with lora", minimal + "train: {finetune: full, lora: {r: 8}}\n", `7:19: finetune: full and train.lora contradict each other: remove one`},
		{"parallel", minimal + "parallel: {dp: 2, zero: 3, tp: 8, sp: true}\n", `
7:16: parallel.dp: 2 is not modelled yet: only 1 is
7:25: parallel.zero: 3 is not modelled yet: only 0 is
7:32: parallel.tp: 8 is not modelled yet: only 1 is
7:39: parallel.sp: true is not modelled yet: only false is`},
		{"ViT length", minimal + "arch: vit\n", `2:4: S 1024 is not the 196 patches of a 224×224 image plus 1 (the class token): write S: 197`},
		{"ViT patch", with("1024", "197") + "arch: vit\nimage: {size: 224, patch: 15}\n", `8:27: image.patch 15 does not divide image.size 224`},
		{"positions", minimal + "max_positions: 512\n", `2:4: S 1024 is more than the 512 learned positions (max_positions)`},
		{"layer types", minimal + "arch: gemma2\nlayer_types: [sliding_attention]\n", `8:14: layer_types has 1 entries for L 12 layers`},
		{"flash2 in fp32", strings.Replace(minimal, "bf16", "fp32", 1) + "attention: flash2\n", `7:12: attention flash2 has no fp32 kernel: use bf16, fp16 or amp, or attention sdpa`},
		{"eager only", minimal + "arch: t5\nattention: sdpa\n", `8:12: attention sdpa: the t5 class of Hugging Face has eager attention only`},
		{"custom without ops", minimal + "arch: custom\n", `7:7: arch custom needs ops: the ops of one block, such as [linear 4H, gelu, linear H]`},
		{"more than 1 PB", with("B: 8", "B: 999999999"), `4:4: the step would need more than 1 PB: a unit slip? The largest input is B: 999999999`},
		{"overflow", "L: 90000\nS: 1000000000\nH: 1000000000000\nB: 1000000000\nheads: 1\ndtype: fp32\n", `3:4: the step would need more than 1 PB: a unit slip? The largest input is H: 1000000000000`},
		{"not YAML", "L: [1\nS: 2\n", `2:2: not YAML: did not find expected ',' or ']'`},
		{"tab", "L: 12\ntrain:\n\toptimizer: adamw\n", `3:1: not YAML: a tab, where YAML is indented with blanks`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load("x.yaml", []byte(tt.doc))
			if diff := cmp.Diff(strings.TrimSpace(tt.want), places(t, err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// places are the diagnostics of an error as "line:col: message", one a line.
func places(t *testing.T, err error) string {
	t.Helper()
	var ds document.Diagnostics
	if !errors.As(err, &ds) || len(ds) == 0 {
		t.Fatalf("not diagnostics: %v", err)
	}
	var lines []string
	for _, d := range ds {
		head, _, _ := strings.Cut(d.String(), "\n")
		lines = append(lines, strings.TrimPrefix(head, d.File+":"))
	}
	return strings.Join(lines, "\n")
}

func TestLoadRefusesWholeFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		src  []byte
		want string
	}{
		"empty":         {nil, "x.yaml: empty: expected a YAML spec with the keys L, S, H, B, heads, dtype"},
		"comments":      {[]byte("# nothing\n"), "x.yaml: empty: expected a YAML spec with the keys L, S, H, B, heads, dtype"},
		"blank":         {[]byte(" \n\n"), "x.yaml: empty: expected a YAML spec with the keys L, S, H, B, heads, dtype"},
		"binary":        {[]byte("\x7fELF\x00\x01"), "x.yaml: a binary file, not a YAML spec with the keys L, S, H, B, heads, dtype"},
		"not UTF-8":     {[]byte("name: \xff\xfe"), "x.yaml: a binary file, not a YAML spec with the keys L, S, H, B, heads, dtype"},
		"huge":          {bytes.Repeat([]byte("a"), 5<<20), "x.yaml: more than 4 MiB: too large for a YAML spec with the keys L, S, H, B, heads, dtype"},
		"two documents": {[]byte(minimal + "---\n" + minimal), "x.yaml: more than one document: a spec file holds one"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load("x.yaml", tt.src); err == nil || err.Error() != tt.want {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestDiagnosticShowsThePlace(t *testing.T) {
	_, err := Load("gpt2.yaml", []byte(minimal+"train:\n    optimizer: lion\n"))
	want := "gpt2.yaml:8:16: train.optimizer: \"lion\" is not one of adamw, adamw-loop, adamw-fused, sgd, sgd-momentum, rmsprop, adamw-8bit, lion-8bit, none\n" +
		"    optimizer: lion\n" +
		"               ^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestLoadWarns(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(minimal, old, new, 1) }
	for name, tt := range map[string]struct{ doc, want string }{
		"batch":           {with("B: 8", "B: 512"), "B 512 × S 1024 is 524288 tokens a forward pass on one device: if 512 is the global batch, give the micro batch and grad_accum"},
		"tokens":          {"L: 1\nS: 1000000\nH: 64\nB: 2\nheads: 1\ndtype: bf16\narch: llama\n", "B 2 × S 1000000 is 2000000 tokens a forward pass on one device: if 2 is the global batch, give the micro batch and grad_accum"},
		"soft cap unseen": {minimal + "arch: gemma2\n", "attention sdpa does not apply the soft cap of the attention scores; only eager does"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load("x.yaml", []byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, s.Warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The table of keys and the struct must name the same keys.
func TestFieldsCoverSpec(t *testing.T) {
	want := map[string]reflect.Type{}
	var walk func(prefix string, st reflect.Type)
	walk = func(prefix string, st reflect.Type) {
		for i := range st.NumField() {
			name, _, _ := strings.Cut(st.Field(i).Tag.Get("yaml"), ",")
			ft := st.Field(i).Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			switch {
			case name == "-":
			case ft.Kind() == reflect.Struct:
				walk(prefix+name+".", ft)
			default:
				want[prefix+name] = ft
			}
		}
	}
	walk("", reflect.TypeFor[spec.Spec]())
	for i := range spec.Fields {
		s := &spec.Spec{MoE: &spec.MoE{}, Image: &spec.Image{}, Train: spec.Train{LoRA: &spec.LoRA{}}}
		if got := reflect.TypeOf(spec.Fields[i].Ptr(s)).Elem(); want[spec.Fields[i].Key] != got {
			t.Errorf("%s: field of type %v, struct has %v", spec.Fields[i].Key, got, want[spec.Fields[i].Key])
		}
		delete(want, spec.Fields[i].Key)
	}
	for key := range want {
		t.Errorf("no field for %s", key)
	}
}

// roundTrip writes a loaded spec and reads it back.
func roundTrip(t *testing.T, s *spec.Spec) {
	t.Helper()
	text, err := yaml.Dump(s)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Load("back.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	a, b := *s, *back
	a.Defaults, b.Defaults, a.Warnings, b.Warnings = nil, nil, nil, nil
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(minimal + "arch: mixtral\nmoe: {experts: 8, top_k: 2, dense_layers: [1]}\ntrain: {lora: {r: 4}}\n"))
	f.Add([]byte(minimal + "arch: gemma2\ndropout: {attention: 0.5}\nsliding_window: 0\nname: ' x'\n"))
	f.Add([]byte("arch: gemma2\nL: -3\nH: -1\nheads: -2\nB: -1\nS: -1\nhead_dim: -4\nkv_heads: -1\nffn: -2\n"))
	f.Add([]byte("L: *a\nS: [&a 1]\n? {a: b}\n: c\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Load("x.yaml", src)
		if err != nil {
			var ds document.Diagnostics
			if !errors.As(err, &ds) || len(ds) == 0 {
				t.Fatalf("%T %v", err, err)
			}
			_ = err.Error()
			return
		}
		roundTrip(t, s)
	})
}

func BenchmarkLoadPreset(b *testing.B) {
	for b.Loop() {
		if _, err := LoadPreset("meta-llama/Llama-3.1-8B"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLoadWeightsAndAutocast: the parts of the precision are keys of their own; with weights a spec needs no dtype.
func TestLoadWeightsAndAutocast(t *testing.T) {
	s, err := Load("x.yaml", []byte("L: 2\nS: 64\nH: 128\nB: 2\nheads: 4\nweights: bfloat16\nautocast: bf16\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.PrecisionName(); got != "bf16+amp-bf16" {
		t.Errorf("weights and autocast bf16: %s", got)
	}
	if err := Override(s, Overrides{Autocast: "off"}); err != nil || s.PrecisionName() != "bf16" {
		t.Errorf("--autocast off: %s, %v", s.PrecisionName(), err)
	}
	if err := Override(s, Overrides{Weights: "fp32", Autocast: "fp16"}); err != nil || s.PrecisionName() != "amp-fp16" {
		t.Errorf("--weights fp32 --autocast fp16: %s, %v", s.PrecisionName(), err)
	}
	if err := Override(s, Overrides{Weights: "fp8"}); err == nil || err.Error() != "--weights fp8 is not modelled: it is one of fp32, bf16, fp16" {
		t.Errorf("--weights fp8: %v", err)
	}
}
