package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/document"
)

// saved is what peft 0.21 writes for LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=[…], use_rslora=True).
const saved = `{
  "alora_invocation_tokens": null,
  "alpha_pattern": {},
  "arrow_config": null,
  "auto_mapping": null,
  "base_model_name_or_path": "meta-llama/Llama-3.2-1B",
  "bias": "none",
  "corda_config": null,
  "ensure_weight_tying": false,
  "eva_config": null,
  "exclude_modules": null,
  "fan_in_fan_out": false,
  "inference_mode": true,
  "init_lora_weights": true,
  "layer_replication": null,
  "layers_pattern": null,
  "layers_to_transform": null,
  "loftq_config": {},
  "lora_alpha": 32,
  "lora_bias": false,
  "lora_dropout": 0.05,
  "megatron_config": null,
  "megatron_core": "megatron.core",
  "modules_to_save": null,
  "peft_type": "LORA",
  "peft_version": "0.21.2",
  "qalora_group_size": 16,
  "r": 16,
  "rank_pattern": {},
  "revision": null,
  "target_modules": ["v_proj", "q_proj"],
  "target_parameters": null,
  "task_type": "CAUSAL_LM",
  "trainable_token_indices": null,
  "use_dora": false,
  "use_qalora": false,
  "use_rslora": true
}`

func TestReadAdapter(t *testing.T) {
	for _, tt := range []struct {
		name, doc string
		want      LoRA
	}{
		{"as saved", saved, LoRA{Rank: 16, Alpha: 32, Dropout: .05, DType: "fp32", Targets: []string{"v_proj", "q_proj"}}},
		{"peft's defaults", `{"peft_type": "LORA", "target_modules": null}`, LoRA{Rank: 8, Alpha: 8, DType: "fp32"}},
		{"every linear layer", `{"peft_type": "LORA", "target_modules": "all-linear"}`, LoRA{Rank: 8, Alpha: 8, DType: "fp32", Targets: []string{"all-linear"}}},
		{"what is off", `{"peft_type": "LORA", "modules_to_save": [], "new_in_peft": false}`, LoRA{Rank: 8, Alpha: 8, DType: "fp32"}},
	} {
		got, err := ReadAdapter("a.json", []byte(tt.doc))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if diff := cmp.Diff(tt.want, *got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestReadAdapterRefuses(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(saved, old) {
			t.Fatal(old)
		}
		return strings.Replace(saved, old, new, 1)
	}
	for doc, want := range map[string]string{
		`{"r": 8}`:              "no peft_type: an adapter_config.json of peft has one",
		with(`"LORA"`, `"IA3"`): `peft_type: "IA3" is not modelled: only "LORA" is`,
		with(`"use_dora": false`, `"use_dora": true`):                        "use_dora: DoRA is not modelled",
		with(`"modules_to_save": null`, `"modules_to_save": ["lm_head"]`):    "modules_to_save: copies of modules that are trained whole are not modelled",
		with(`"none"`, `"lora_only"`):                                        `bias: "lora_only" is not modelled: only "none" is`,
		with(`["v_proj", "q_proj"]`, `".*q_proj$"`):                          `target_modules: ".*q_proj$" is a regular expression`,
		with(`"use_qalora": false`, `"use_qalora": true`):                    "use_qalora is not known",
		with(`"CAUSAL_LM"`, `"SEQ_CLS"`):                                     `task_type: "SEQ_CLS" is not modelled`,
		with(`"r": 16`, `"r": 0`):                                            "r: 0, but it is a whole number of at least 1",
		with(`"r": 16`, `"r": 16, "r": 8`):                                   "r is given twice",
		with(`"rank_pattern": {}`, `"rank_pattern": {"q_proj": 4}`):          "rank_pattern: ranks that differ between layers are not modelled",
		with(`"layers_to_transform": null`, `"layers_to_transform": [0, 1]`): "layers_to_transform: adapters in some layers only are not modelled",
		`[1]`: "not a list",
	} {
		_, err := ReadAdapter("a.json", []byte(doc))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func FuzzReadAdapter(f *testing.F) {
	f.Add([]byte(saved))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": [[]], "r": 1e99}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		l, err := ReadAdapter("a.json", src)
		switch {
		case err != nil && !errors.As(err, new(document.Diagnostics)):
			t.Errorf("%T", err)
		case err == nil && (l.Rank < 1 || !(l.Alpha > 0) || l.Dropout < 0 || l.Dropout >= 1):
			t.Errorf("%+v", l)
		}
	})
}
