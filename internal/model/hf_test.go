package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/document"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// Every config that was measured loads, with the sizes that its own keys say.
func TestLoadHFGroundTruth(t *testing.T) {
	files, err := filepath.Glob("../../testdata/ground-truth/configs/*.json")
	if err != nil || len(files) < 16 {
		t.Fatalf("%d configs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := LoadHF(file, src)
			if err != nil {
				t.Fatal(err)
			}
			var raw map[string]any
			if err := json.Unmarshal(src, &raw); err != nil {
				t.Fatal(err)
			}
			for got, names := range map[int]string{
				s.L: "n_layer num_hidden_layers num_layers", s.H: "n_embd hidden_size d_model", s.Heads: "n_head num_attention_heads num_heads",
				s.KVHeads: "num_key_value_heads", s.HeadDim: "head_dim d_kv", s.FFN: "intermediate_size ffn_dim d_ff",
			} {
				for name := range strings.FieldsSeq(names) {
					if v, ok := raw[name].(float64); ok && int(v) != got {
						t.Errorf("%s: %v in the file, %d read", name, v, got)
					}
				}
			}
			if v, ok := raw["vocab_size"].(float64); ok && int(v) != s.Vocab && s.Image == nil {
				t.Errorf("vocab %d, not %v", s.Vocab, v)
			}
			if nearest.Fold(raw["model_type"].(string)) != s.Arch {
				t.Errorf("arch %s of model_type %v", s.Arch, raw["model_type"])
			}
			if v, ok := raw["tie_word_embeddings"].(bool); ok && s.Image == nil && s.Arch != "t5" && v != s.Tied {
				t.Errorf("tied %v", s.Tied)
			}
			roundTrip(t, s)
		})
	}
}

// A config.json that holds only its model_type is the class's own default model. Parameters of each were counted on
// the class of transformers 5.12 (meta device, tied weights once);
func TestLoadHFClassDefaults(t *testing.T) {
	for mt, want := range classParameters {
		t.Run(mt, func(t *testing.T) {
			s, err := LoadHF("config.json", whole(`{"model_type": "`+mt+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := countParameters(s); got != want {
				t.Errorf("%d parameters, the class has %d: %+v", got, want, s)
			}
			roundTrip(t, s)
		})
	}
	for _, c := range class.Classes {
		if len(c.Heads) > 0 && classParameters[c.ModelType()] == 0 {
			t.Errorf("no count for %s", c.ModelType())
		}
	}
}

func TestLoadHFReads(t *testing.T) {
	tests := []struct {
		name, doc string
		check     func(*spec.Spec) bool
	}{
		{"old dtype key", `{"model_type":"llama","torch_dtype":"float16"}`, func(s *spec.Spec) bool { return s.Precision == dtype.PureFP }},
		{"new dtype key", `{"model_type":"llama","dtype":"float32","torch_dtype":"float16"}`, func(s *spec.Spec) bool { return s.Precision == dtype.FP32 }},
		{"no dtype", `{"model_type":"llama","torch_dtype":null}`, func(s *spec.Spec) bool { return s.Precision == dtype.FP32 }},
		{"length of the run", `{"model_type":"llama","max_position_embeddings":131072}`, func(s *spec.Spec) bool { return s.S == 2048 && s.B == 1 }},
		{"short model", `{"model_type":"bert"}`, func(s *spec.Spec) bool { return s.S == 512 }},
		{"RoBERTa's table has two rows more", `{"model_type":"roberta","max_position_embeddings":514}`, func(s *spec.Spec) bool { return s.S == 512 && s.MaxS == 514 }},
		{"null is the default", `{"model_type":"llama","num_key_value_heads":null,"head_dim":null,"rope_scaling":null}`, func(s *spec.Spec) bool { return s.KVHeads == 32 && s.HeadDim == 128 }},
		{"null window", `{"model_type":"mistral","sliding_window":null}`, func(s *spec.Spec) bool { return s.SlidingWindow == 0 }},
		{"missing window", `{"model_type":"mistral"}`, func(s *spec.Spec) bool { return s.SlidingWindow == 4096 }},
		{"Qwen's window unused", `{"model_type":"qwen2","sliding_window":131072,"max_window_layers":28,"use_sliding_window":false}`, func(s *spec.Spec) bool {
			return s.SlidingWindow == 0 && s.LayerTypes == nil
		}},
		{"Qwen's window from a layer on", `{"model_type":"qwen2","num_hidden_layers":3,"sliding_window":128,"max_window_layers":2,"use_sliding_window":true}`, func(s *spec.Spec) bool {
			return s.SlidingWindow == 128 && strings.Join(s.LayerTypes, " ") == "full_attention full_attention sliding_attention"
		}},
		{"Gemma 2 alternates", `{"model_type":"gemma2","num_hidden_layers":3}`, func(s *spec.Spec) bool {
			return strings.Join(s.LayerTypes, " ") == "sliding_attention full_attention sliding_attention" && s.AttnSoftcap && s.LogitSoftcap
		}},
		{"no soft cap", `{"model_type":"gemma2","attn_logit_softcapping":null,"final_logit_softcapping":null}`, func(s *spec.Spec) bool { return !s.AttnSoftcap && !s.LogitSoftcap }},
		{"NeoX's rotary_pct", `{"model_type":"gpt_neox","rotary_pct":0.5}`, func(s *spec.Spec) bool { return s.Rotary == 0.5 }},
		{"rotary in rope_parameters", `{"model_type":"gpt_neox","rope_parameters":{"partial_rotary_factor":1.0}}`, func(s *spec.Spec) bool { return s.Rotary == 1 }},
		{"rotary in rope_scaling", `{"model_type":"phi","rope_scaling":{"partial_rotary_factor":0.25}}`, func(s *spec.Spec) bool { return s.Rotary == 0.25 }},
		{"part of a head, which Llama ignores", `{"model_type":"llama","partial_rotary_factor":0.5}`, func(s *spec.Spec) bool { return s.Rotary == 1 }},
		{"the same of a scaled table", `{"model_type":"gpt_neox","rotary_pct":0.5,"rope_scaling":{"type":"linear","factor":2.0}}`, func(s *spec.Spec) bool { return s.Rotary == 0.5 }},
		{"gelu_fast", `{"model_type":"gpt_neox","hidden_act":"gelu_fast"}`, func(s *spec.Spec) bool { return s.Activation == "gelu_fast" }},
		{"BLOOM's slices of one part", `{"model_type":"bloom","slow_but_exact":true,"pretraining_tp":1}`, func(s *spec.Spec) bool { return s.L == 2 }},
		{"hyphen in model_type", `{"model_type":"gpt-neox"}`, func(s *spec.Spec) bool { return s.Arch == "gpt-neox" }},
		{"n_inner null", `{"model_type":"gpt2","n_embd":1024,"n_head":16,"n_inner":null}`, func(s *spec.Spec) bool { return s.FFN == 4096 }},
		{"n_inner", `{"model_type":"gpt2","n_inner":1000}`, func(s *spec.Spec) bool { return s.FFN == 1000 }},
		{"GPT-2's attention", `{"model_type":"gpt2","reorder_and_upcast_attn":true,"scale_attn_by_inverse_layer_idx":true,"scale_attn_weights":false}`, func(s *spec.Spec) bool {
			return s.UpcastAttn && s.LayerScaledAttn && s.UnscaledAttn
		}},
		{"GPT-2's own names and the standard ones, which win", `{"model_type":"gpt2","n_layer":12,"num_hidden_layers":3,"n_embd":768,"hidden_size":96}`, func(s *spec.Spec) bool { return s.L == 3 && s.H == 96 }},
		{"no model_type, as in 2019", `{"architectures":["GPT2LMHeadModel"],"n_layer":36,"num_labels":1}`, func(s *spec.Spec) bool {
			return s.Arch == "gpt2" && s.L == 36 && s.Defaults[0] == "model_type gpt2 (from architectures)"
		}},
		{"LLaMA's name before its release", `{"model_type":"llama","architectures":["LLaMAForCausalLM"]}`, func(s *spec.Spec) bool { return s.L == 32 }},
		{"standard names in GPT-2", `{"model_type":"gpt2","num_hidden_layers":3,"hidden_size":144}`, func(s *spec.Spec) bool { return s.L == 3 && s.H == 144 }},
		{"OPT-350m", `{"model_type":"opt","hidden_size":1024,"num_attention_heads":16,"do_layer_norm_before":false,"word_embed_proj_dim":512}`, func(s *spec.Spec) bool {
			return s.NormOrder == "post" && s.EmbedDim == 512 && !s.FinalNorm
		}},
		{"OPT without a last norm", `{"model_type":"opt","_remove_final_layer_norm":true}`, func(s *spec.Spec) bool { return s.NormOrder == "pre" && !s.FinalNorm }},
		{"OPT's norms without weights", `{"model_type":"opt","layer_norm_elementwise_affine":false,"enable_bias":false}`, func(s *spec.Spec) bool {
			return s.PlainNorm && s.FinalNorm && !s.Bias.QKV && !s.Bias.Out && !s.Bias.MLP
		}},
		{"OPT's projection of the same width", `{"model_type":"opt","word_embed_proj_dim":768}`, func(s *spec.Spec) bool { return s.EmbedDim == 0 && s.NormOrder == "pre" }},
		{"Falcon-RW heads", `{"model_type":"falcon","multi_query":false}`, func(s *spec.Spec) bool { return s.KVHeads == 71 }},
		{"Falcon-7B", `{"model_type":"falcon","num_kv_heads":71,"multi_query":true,"new_decoder_architecture":false}`, func(s *spec.Spec) bool { return s.KVHeads == 1 && s.ParallelResidual && s.FFN == 18176 }},
		{"Falcon-40B", `{"model_type":"falcon","new_decoder_architecture":true,"num_attention_heads":128,"hidden_size":8192,"num_kv_heads":8}`, func(s *spec.Spec) bool {
			return s.NewDecoder && s.KVHeads == 8 && s.FFN == 32768
		}},
		{"Falcon 2", `{"model_type":"falcon","new_decoder_architecture":true,"num_ln_in_parallel_attn":1}`, func(s *spec.Spec) bool { return s.SharedNorm }},
		{"new decoder without num_kv_heads", `{"model_type":"falcon","new_decoder_architecture":true}`, func(s *spec.Spec) bool { return s.KVHeads == 71 }},
		{"Falcon-RW", `{"model_type":"falcon","alibi":true,"multi_query":false,"parallel_attn":false,"bias":true}`, func(s *spec.Spec) bool {
			return s.Positions == "alibi" && s.KVHeads == 71 && !s.ParallelResidual && s.Bias.QKV
		}},
		{"BLOOM's n_embed", `{"model_type":"bloom","n_embed":1024,"n_layer":24,"num_attention_heads":16}`, func(s *spec.Spec) bool {
			return s.H == 1024 && s.L == 24 && s.Heads == 16 && s.FFN == 4096 && s.Attention == "eager"
		}},
		{"BLOOM's n_embed wins", `{"model_type":"bloom","n_embed":1024,"hidden_size":64}`, func(s *spec.Spec) bool { return s.H == 1024 }},
		{"Falcon's n_embed wins", `{"model_type":"falcon","n_embed":284,"hidden_size":4544}`, func(s *spec.Spec) bool { return s.H == 284 }},
		{"Mixtral's num_experts wins", `{"model_type":"mixtral","num_local_experts":8,"num_experts":4}`, func(s *spec.Spec) bool { return s.MoE.Experts == 4 }},
		{"Qwen3-MoE's num_local_experts wins", `{"model_type":"qwen3_moe","num_local_experts":16,"num_experts":128}`, func(s *spec.Spec) bool { return s.MoE.Experts == 16 }},
		{"experts as usual", `{"model_type":"mixtral","experts_implementation":"grouped_mm","_experts_implementation":null}`, func(s *spec.Spec) bool { return s.MoE.Experts == 8 }},
		{"BLOOM's residuals", `{"model_type":"bloom","apply_residual_connection_post_layernorm":true}`, func(s *spec.Spec) bool { return s.NormedResidual }},
		{"Phi's norms of queries and keys", `{"model_type":"phi","qk_layernorm":true}`, func(s *spec.Spec) bool { return s.QKNorm }},
		{"T5 v1.1", `{"model_type":"t5","feed_forward_proj":"gated-gelu","num_decoder_layers":4}`, func(s *spec.Spec) bool {
			return s.Gated && s.Activation == "gelu_new" && s.DecoderL == 4 && s.L == 6 && s.LogitScale
		}},
		{"T5's switches win over the word that they follow from", `{"model_type":"t5","feed_forward_proj":"relu","is_gated_act":true,"dense_act_fn":"gelu"}`, func(s *spec.Spec) bool {
			return s.Gated && s.Activation == "gelu"
		}},
		{"T5's num_layers is the decoder's, too", `{"model_type":"t5","num_layers":4}`, func(s *spec.Spec) bool { return s.L == 4 && s.DecoderL == 4 }},
		{"T5's num_hidden_layers is the encoder's alone", `{"model_type":"t5","num_hidden_layers":3,"head_dim":32}`, func(s *spec.Spec) bool { return s.L == 3 && s.DecoderL == 6 && s.HeadDim == 32 }},
		{"T5's head is tied whatever the config says", `{"model_type":"t5","tie_word_embeddings":false}`, func(s *spec.Spec) bool { return s.Tied && !s.LogitScale }},
		{"ViT with a list and labels", `{"model_type":"vit","image_size":[384,384],"patch_size":32,"id2label":{"0":"a","1":"b","2":"c"}}`, func(s *spec.Spec) bool {
			return s.S == 145 && s.Labels == 3
		}},
		{"BERT classifier", `{"model_type":"bert","architectures":["BertForSequenceClassification"],"num_labels":3}`, func(s *spec.Spec) bool { return s.Labels == 3 }},
		{"BERT classifier's default", `{"model_type":"bert","architectures":["BertForSequenceClassification"]}`, func(s *spec.Spec) bool { return s.Labels == 2 }},
		{"BERT classifier's dropout", `{"model_type":"bert","architectures":["BertForSequenceClassification"],"hidden_dropout_prob":0.2}`, func(s *spec.Spec) bool { return s.Dropout.Classifier == 0.2 }},
		{"BERT classifier's own dropout", `{"model_type":"bert","architectures":["BertForSequenceClassification"],"classifier_dropout":0.0}`, func(s *spec.Spec) bool { return s.Dropout.Classifier == 0 }},
		{"RoBERTa classifier", `{"model_type":"roberta","architectures":["RobertaForSequenceClassification"],"id2label":{"0":"a","1":"b","2":"c"}}`, func(s *spec.Spec) bool {
			return s.Labels == 3 && s.Dropout.Classifier == 0.1
		}},
		{"a label a token", `{"model_type":"roberta","architectures":["RobertaForTokenClassification"],"num_labels":9}`, func(s *spec.Spec) bool {
			return s.Labels == 9 && s.LabelsOf == "tokens" && s.Dropout.Classifier == 0.1
		}},
		{"the ends of a span", `{"model_type":"bert","architectures":["BertForQuestionAnswering"]}`, func(s *spec.Spec) bool { return s.Labels == 2 && s.LabelsOf == "span" }},
		{"BERT without a head for labels", `{"model_type":"bert","num_labels":3}`, func(s *spec.Spec) bool {
			return s.Labels == 0 && s.Defaults[0] == "architectures BertForMaskedLM"
		}},
		{"Mixtral's experts", `{"model_type":"mixtral","num_local_experts":4,"intermediate_size":512}`, func(s *spec.Spec) bool { return s.MoE.Experts == 4 && s.MoE.FFN == 512 && s.MoE.NormTopK }},
		{"swish is silu", `{"model_type":"llama","hidden_act":"swish"}`, func(s *spec.Spec) bool { return s.Activation == "silu" }},
		{"tanh gelu", `{"model_type":"gemma","hidden_act":"gelu_pytorch_tanh"}`, func(s *spec.Spec) bool { return s.Activation == "gelu_tanh" }},
		{"attention implementation", `{"model_type":"llama","dtype":"bfloat16","_attn_implementation":"flash_attention_2"}`, func(s *spec.Spec) bool { return s.Attention == "flash2" }},
		{"harmless settings", `{"model_type":"gpt2","use_cache":false,"summary_type":"mean"}`, func(s *spec.Spec) bool { return s.L == 12 }},
		{"name from the hub", `{"model_type":"gpt2","_name_or_path":"org/x"}`, func(s *spec.Spec) bool { return s.Name == "org/x" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := LoadHF("config.json", whole(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if !tt.check(s) {
				t.Errorf("%+v", s)
			}
			roundTrip(t, s)
		})
	}
}

// whole is a config.json that also says the sizes that doc leaves out, with the class's default for each, so that a case is
// about what it names only.
func whole(doc string) []byte {
	var keys map[string]any
	end := strings.LastIndexByte(doc, '}')
	if json.Unmarshal([]byte(doc), &keys) != nil {
		return []byte(doc)
	}
	kind, _ := keys["model_type"].(string)
	if kind == "" && strings.Contains(doc, "GPT2LMHeadModel") {
		kind = "gpt2"
	}
	c := class.Of(kind)
	if c == nil {
		return []byte(doc)
	}
	more := ""
	for key, own := range c.Sizes() {
		given := key == "decoder_L" && keys["num_layers"] != nil
		for _, k := range c.Keys {
			given = given || k.Spec == key && keys[k.Name] != nil
		}
		f := spec.FieldOf(key)
		if given || !spec.HasSection(&c.Spec, f) || spec.PrintValue(f.Ptr(&c.Spec)) == "0" {
			continue
		}
		more += fmt.Sprintf(",%q:%s", own, spec.PrintValue(f.Ptr(&c.Spec)))
	}
	return []byte(doc[:end] + more + doc[end:])
}

// A config.json that does not say how large its model is, or says it in other words, is no model.
func TestLoadHFNeedsSizes(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"nothing but the class", `{"model_type": "llama"}`, `1:1: missing num_hidden_layers, hidden_size, num_attention_heads, intermediate_size, vocab_size: a config.json says how large its model is; the default sizes of llama are never assumed`},
		{"learned positions are parameters", `{"model_type": "bert"}`, `1:1: missing num_hidden_layers, hidden_size, num_attention_heads, intermediate_size, vocab_size, max_position_embeddings: a config.json says how large its model is; the default sizes of bert are never assumed`},
		{"an encoder and a decoder", `{"model_type": "t5", "num_hidden_layers": 3, "d_model": 64, "num_heads": 2, "d_kv": 32, "d_ff": 64, "vocab_size": 99}`, `1:1: missing num_decoder_layers: a config.json says how large its model is; the default sizes of t5 are never assumed`},
		{"experts", `{"model_type": "mixtral", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 99}`, `1:1: missing num_local_experts, num_experts_per_tok: a config.json says how large its model is; the default sizes of mixtral are never assumed`},
		{"another tool's names", `{"model_type":"llama","num_layers":80,"hidden_dim":8192,"n_heads":64,"intermediate_size":9,"vocab_size":9}`, `
1:23: unknown key "num_layers": llama calls it num_hidden_layers
1:39: unknown key "hidden_dim": llama calls it hidden_size
1:57: unknown key "n_heads": llama calls it num_attention_heads`},
		{"another tool's name of what follows from others", `{"model_type":"llama","num_hidden_layers":8,"hidden_size":64,"num_attention_heads":4,"num_kv_heads":2,"intermediate_size":9,"vocab_size":9}`, `1:86: unknown key "num_kv_heads": llama calls it num_key_value_heads`},
		{"misspelt", `{"model_type":"llama","num_hidden_layers":8,"hidden_size":64,"num_attention_heads":4,"num_key_value_head":2,"intermediate_size":9,"vocab_size":9}`, `1:86: unknown key "num_key_value_head": llama calls it num_key_value_heads`},
		{"a key twice", "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,\"vocab_size\":9,\"n_positions\":9,\n\"n_layer\":3,\"n_layer\":4}", `2:13: n_layer is given twice (first in line 2)`},
		{"layer types that the class does not read", `{"model_type":"llama","num_hidden_layers":8,"layer_types":["full_attention"],"hidden_size":64,"num_attention_heads":4,"intermediate_size":9,"vocab_size":9}`, `1:59: layer_types has 1 entries for L 8 layers`},
		{"text that runs backwards", `{"model_type":"gpt2","_name_or_path":"a\u202eb"}`, `1:38: the character U+202E changes the direction of the text around it: remove it`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadHF("config.json", []byte(tt.doc))
			if diff := cmp.Diff(strings.TrimSpace(tt.want), places(t, err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Files that people hold beside their model are named in one sentence, whatever else is in them.
func TestTrainerFiles(t *testing.T) {
	for doc, want := range map[string]string{
		"base_model: meta-llama/Llama-3.1-8B\nload_in_4bit: true\nsequence_len: 4096\n": "1:1: this is an axolotl config, not a model: give the model that base_model names as MODEL, and settings as flags (--batch, --seq, --precision …)",
		"### model\nmodel_name_or_path: x\nstage: sft\n":                                "2:1: this is a config of LLaMA-Factory or TRL, not a model: give the model that model_name_or_path names as MODEL, and settings as flags (--batch, --seq, --precision …)",
		`{"bf16": true, "per_device_train_batch_size": 4}`:                              "1:16: this is Hugging Face's TrainingArguments, not a model: give the config.json of the model to train as MODEL, and settings as flags (--batch, --seq, --precision …)",
		`{"zero_optimization": {"stage": 3}, "train_batch_size": "auto"}`:               "1:2: this is a DeepSpeed config, not a model: give the config.json of the model to train as MODEL, and settings as flags (--batch, --seq, --precision …)",
		`{"peft_type": "LORA", "r": 8}`:                                                 "1:2: this is an adapter_config.json of peft, not a model: give the model that base_model_name_or_path names as MODEL, and this file with --lora",
	} {
		file := "x.yaml"
		if doc[0] == '{' {
			file = "x.json"
		}
		_, err := LoadAny(file, func(string) ([]byte, error) { return []byte(doc), nil })
		if diff := cmp.Diff(want, strings.ReplaceAll(places(t, err), file+":", "")); diff != "" {
			t.Error(diff)
		}
	}
}

// What another tool adds beside the class's own names is not read, as transformers does not.
func TestLoadHFOwnNamesWin(t *testing.T) {
	s, err := LoadHF("config.json", []byte(`{"model_type":"llama","num_hidden_layers":8,"num_layers":80,"hidden_size":64,"d_model":1,"num_attention_heads":4,"intermediate_size":9,"vocab_size":9}`))
	if err != nil || s.L != 8 || s.H != 64 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestLoadHFRefuses(t *testing.T) {
	const modelled = "gpt2, llama, mistral, qwen2, qwen3, gpt_neox, opt, bert, roberta, xlm-roberta, camembert, distilbert, electra, vit, mixtral, qwen2_moe, qwen3_moe, gpt_oss, phi, phi3, gemma, gemma2, gemma3_text, smollm3, glm4, olmo2, olmo3, starcoder2, falcon, bloom, granite, cohere, t5, mt5"
	tests := []struct{ name, doc, want string }{
		{"state space", `{"model_type": "mamba"}`, `1:16: model_type "mamba" is not modelled: modelled are ` + modelled},
		{"near name", `{"model_type": "gemma3"}`, `1:16: model_type "gemma3" is not modelled: modelled are ` + modelled + ` (nearest: "gemma")`},
		{"no model_type", `{"L": 3}`, `1:1: no model_type: a Hugging Face config.json has one, such as "llama"`},
		{"head", `{"model_type": "bert", "architectures": ["BertForMultipleChoice"]}`, `1:42: BertForMultipleChoice is not modelled: of bert only BertForMaskedLM or BertForSequenceClassification or BertForTokenClassification or BertForQuestionAnswering is; to train that from this checkpoint, name it here`},
		{"regression", `{"model_type": "vit", "num_labels": 1}`, `1:37: labels 1: a regression's loss is not modelled: only the cross-entropy of 2 classes or more is`},
		{"quantized", `{"model_type": "llama", "quantization_config": {"bits": 4}}`, `1:48: quantization_config: quantized weights are not modelled: only fp32, bf16 and fp16 are`},
		{"cross attention", "{\"model_type\": \"gpt2\",\n \"add_cross_attention\": true}", `2:25: gpt2 with add_cross_attention: true is not modelled: only false is`},
		{"decoder BERT", `{"model_type": "bert", "is_decoder": true}`, `1:38: bert with is_decoder: true is not modelled: only false is`},
		{"Falcon's one head", `{"model_type": "falcon", "num_attention_heads": 1, "multi_query": false}`, `1:67: falcon with multi_query: false is not modelled for one attention head`},
		{"Falcon's norms", `{"model_type": "falcon", "num_ln_in_parallel_attn": 2}`, `1:53: falcon with num_ln_in_parallel_attn: 2 is not modelled: without new_decoder_architecture only 1 is`},
		{"Falcon in sequence", `{"model_type": "falcon", "new_decoder_architecture": true, "parallel_attn": false}`, `1:77: falcon: the new decoder architecture is parallel: otherwise the class has no norm for its MLP`},
		{"Phi's pairs", `{"model_type": "phi", "hidden_size": 80, "num_attention_heads": 4, "partial_rotary_factor": 0.25}`, `1:93: rotary_fraction 0.25 of head_dim 20 is 5 elements, an odd number: Phi turns pairs of them`},
		{"Falcon's key heads", `{"model_type": "falcon", "multi_query": false, "num_kv_heads": 3}`, `1:64: falcon with multi_query: false and num_kv_heads: 3 is no model: without new_decoder_architecture the class splits its projection into 71 heads`},
		{"layer drop", `{"model_type": "opt", "layerdrop": 0.1}`, `1:36: opt with layerdrop: 0.1 is not modelled: only 0 is`},
		{"partial rotary Llama", `{"model_type": "llama", "partial_rotary_factor": 0.5, "rope_scaling": {"type": "yarn", "factor": 2.0}}`, `1:50: llama with partial_rotary_factor: 0.5 and type: "yarn" is no model: its rotary table would be narrower than its heads`},
		{"kept hidden states", `{"model_type": "llama", "output_hidden_states": true}`, `1:49: llama with output_hidden_states: true is not modelled: only false is`},
		{"multi-label ViT", `{"model_type": "vit", "problem_type": "multi_label_classification"}`, `1:39: vit with problem_type: "multi_label_classification" is not modelled: only single_label_classification is`},
		{"BLOOM in slices", `{"model_type": "bloom", "pretraining_tp": 4, "slow_but_exact": true}`, `1:64: bloom with slow_but_exact: true and pretraining_tp: 4 is not modelled: only false is`},
		{"activation", `{"model_type": "llama", "hidden_act": "relu2"}`, `1:39: activation: "relu2" is not one of gelu, gelu_new, gelu_tanh, gelu_fast, silu, relu, tanh, quick_gelu (did you mean "relu"?)`},
		{"several at once", "{\"model_type\": \"llama\",\n\"hidden_size\": 0,\n\"num_hidden_layers\": \"32\",\n\"torch_dtype\": \"float8_e4m3fn\"}", `
2:16: H: 0, but it is a whole number of at least 1
3:22: L: "32" is a word: write 32
4:16: dtype: float8_e4m3fn is not modelled: it is one of fp32, bf16, fp16, amp-bf16, amp-fp16`},
		{"heads", `{"model_type": "gpt2", "n_head": 7}`, `1:34: heads 7 does not divide H 768: choose heads that do, or give head_dim`},
		{"kv heads", `{"model_type": "llama", "num_key_value_heads": 5}`, `1:48: kv_heads 5 does not divide heads 32`},
		{"layer types", `{"model_type": "gemma2", "layer_types": ["full_attention", "sliding_attention"]}`, `1:41: layer_types has 2 entries for L 26 layers`},
		{"sliding layers without a window", `{"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]}`, `1:64: layer_types has sliding_attention, which needs use_sliding_window: true and sliding_window: the window in tokens`},
		{"unknown layer type", `{"model_type": "qwen3", "layer_types": ["linear_attention"]}`, `1:41: layer_types: "linear_attention" is not one of full_attention, sliding_attention (did you mean "sliding_attention"?)`},
		{"T5 in fp16", `{"model_type": "t5", "dtype": "float16"}`, `1:31: dtype fp16: T5 keeps wo in fp32 when it is loaded so, which is not modelled: use bf16, fp32 or amp`},
		{"experts one by one", `{"model_type": "qwen3_moe", "experts_implementation": "eager"}`, `1:55: qwen3_moe with experts_implementation: "eager" is not modelled: only grouped_mm is`},
		{"rectangular images", `{"model_type": "vit", "image_size": [224, 112]}`, `1:37: image_size: [224, 112] is not modelled: only squares are`},
		{"no model_type, unknown head", `{"architectures": ["BertForNextSentencePrediction"]}`, `1:1: no model_type: a Hugging Face config.json has one, such as "llama"`},
		{"eager only", `{"model_type": "t5", "attn_implementation": "sdpa"}`, `1:45: attention sdpa: the t5 class of Hugging Face has eager attention only`},
		{"not an object", `[1]`, `1:1: a config.json is an object such as {"model_type": "llama", …}, not a list`},
		{"negative layers", `{"model_type": "gemma2", "num_hidden_layers": -3}`, `1:47: L: -3, but it is a whole number of at least 1`},
		{"vast image", `{"model_type": "vit", "image_size": 4294967296}`, `1:37: image.size 4294967296 is above 65536 pixels a side`},
		{"truncated", "{\"model_type\":\n \"llama\"", `2:8: not JSON: unexpected end of JSON input`},
		{"comma", `{"model_type": "llama",}`, `1:24: not JSON: invalid character '}' looking for beginning of object key string`},
		{"more text", `{"model_type": "llama"} x`, `1:25: not JSON: invalid character 'x' after top-level value`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadHF("config.json", whole(tt.doc))
			if diff := cmp.Diff(strings.TrimSpace(tt.want), places(t, err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadHFNamesWhatItFilledIn(t *testing.T) {
	s, err := LoadHF("m/config.json", []byte(`{"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"intermediate_size":11008,
		"vocab_size":32000,"hidden_act":"silu","max_position_embeddings":4096}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"architectures LlamaForCausalLM", "S 2048", "B 1", "kv_heads 32 (one a query head)", "head_dim 128 (H/heads)", "dtype fp32", "attention sdpa", "norm rmsnorm", "optimizer adamw", "logits kept during backward",
	}
	if diff := cmp.Diff(want, s.Defaults); diff != "" {
		t.Error(diff)
	}
	if s.Name != "m" {
		t.Errorf("name %q", s.Name)
	}
}

// What the caller sets itself is not read: a checkpoint saved in fp16, or for a kernel, is trained otherwise.
func TestLoadHFReplaced(t *testing.T) {
	for doc, replaced := range map[string]string{
		`{"model_type":"t5","torch_dtype":"float16"}`:                                            "dtype",
		`{"model_type":"llama","torch_dtype":"float64"}`:                                         "dtype",
		`{"model_type":"llama","_attn_implementation":"flex_attention"}`:                         "attention",
		`{"model_type":"llama","_attn_implementation":"flash_attention_2","dtype":"float32"}`:    "dtype",
		`{"model_type":"bloom","attn_implementation":"sdpa","_attn_implementation":"flash_xyz"}`: "attention",
	} {
		if _, err := LoadHF("config.json", whole(doc)); err == nil {
			t.Errorf("%s is accepted", doc)
		}
		if _, err := LoadHF("config.json", whole(doc), replaced); err != nil {
			t.Errorf("%s with its %s replaced: %v", doc, replaced, err)
		}
	}
}

func FuzzLoadHF(f *testing.F) {
	f.Add([]byte(`{"model_type":"gpt2","n_layer":2}`))
	f.Add([]byte(`{"model_type":"qwen3_moe","mlp_only_layers":[1],"use_sliding_window":true,"layer_types":null}`))
	f.Add([]byte(`{"model_type":"gemma2","num_hidden_layers":-3}`))
	f.Add([]byte(`{"model_type":"qwen3","num_hidden_layers":-3,"use_sliding_window":true}`))
	f.Add([]byte(`{"model_type":"vit","image_size":4294967296,"patch_size":1}`))
	f.Add([]byte(`{"model_type":"vit","image_size":[64,64],"id2label":{}}`))
	f.Add([]byte(`{"model_type":"t5","feed_forward_proj":"gated-silu","rope_scaling":[{"a":{}}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := LoadHF("config.json", src)
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
