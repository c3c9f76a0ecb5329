package model

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"ckptplan/internal/document"
)

func TestPresetName(t *testing.T) {
	for name, want := range map[string]string{
		"gpt2": "gpt2", "GPT2": "gpt2", "gpt2-small": "gpt2", "openai-community/gpt2-xl": "gpt2-xl", "meta-llama/Llama-3.1-8B": "llama-3.1-8b",
		"meta-llama/Meta-Llama-3-8B-Instruct": "llama-3-8b", "meta-llama/Llama-2-7b-chat-hf": "llama-2-7b", "llama_3.2_1b": "llama-3.2-1b",
		"Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b", "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b", "Qwen/Qwen3-8B-Base": "qwen3-8b", "google/gemma-2-9b-it": "gemma-2-9b",
		"bert-base-uncased": "bert-base", "bert-base": "bert-base", "FacebookAI/roberta-base": "roberta-base", "mistralai/Mistral-7B-v0.1": "mistral-7b",
		"mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b", "microsoft/phi-1_5": "phi-1.5", "microsoft/Phi-3-mini-4k-instruct": "phi-3-mini",
		"CohereForAI/c4ai-command-r-v01": "command-r", "TinyLlama/TinyLlama-1.1B-Chat-v1.0": "tinyllama-1.1b", "google-t5/t5-base": "t5-base",
		"allenai/OLMo-2-1124-7B": "olmo-2-7b", "google/vit-base-patch16-224": "vit-base", "tiiuae/falcon-7b-instruct": "falcon-7b",
	} {
		if got, ok := PresetName(name); !ok || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"", "llama", "mistralai/Mistral-7B-v0.3", "bert-base-cased", "-hf", "../gpt2", "a/b/gpt2"} {
		if got, ok := PresetName(name); ok {
			t.Errorf("%q is taken for %s", name, got)
		}
	}
}

func TestPresetsAreThere(t *testing.T) {
	names := presetNames()
	for name := range strings.FieldsSeq(`gpt2 gpt2-medium gpt2-large gpt2-xl gpt-1.3b llama-2-7b llama-2-13b llama-2-70b llama-3-8b llama-3-70b llama-3.1-8b
		llama-3.1-70b llama-3.1-405b llama-3.2-1b llama-3.2-3b tinyllama-1.1b mistral-7b mixtral-8x7b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b
		qwen2.5-14b qwen2.5-32b qwen2.5-72b qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen3-14b qwen3-32b qwen3-30b-a3b phi-1.5 phi-2 phi-3-mini gemma-2b
		gemma-7b gemma-2-2b gemma-2-9b gemma-2-27b bert-base bert-large roberta-base vit-base vit-large pythia-410m opt-1.3b olmo-2-7b starcoder2-3b
		falcon-7b bloom-560m granite-3-8b command-r t5-base`) {
		if !slices.Contains(names, name) {
			t.Errorf("no preset %s", name)
		}
	}
	if s, err := LoadPreset("gpt-1.3b"); err != nil || s.L != 24 || s.H != 2048 || s.Heads != 16 || s.S != 2048 || s.B != 8 || s.Dropout.Residual != 0.1 {
		t.Errorf("gpt-1.3b: %+v, %v", s, err)
	}
	for known, alias := range presetAliases {
		if !slices.Contains(names, alias) {
			t.Errorf("%s stands for %s, which is no preset", known, alias)
		}
	}
}

func TestLoadAny(t *testing.T) {
	files := map[string]string{
		"mine.yaml":                           minimal,
		"notes":                               minimal,
		"config.json":                         string(whole(`{"model_type": "gpt2", "n_layer": 3}`)),
		"ckpt/config.json":                    string(whole(`{"model_type": "llama", "num_hidden_layers": 5}`)),
		"spec.json":                           `{"L": 2, "S": 8, "H": 16, "B": 1, "heads": 2, "dtype": "fp32"}`,
		"bad.yaml":                            "L: 0\n",
		"gpt2":                                "L: 99\n",
		"meta-llama/Llama-3.2-1B/config.json": string(whole(`{"model_type": "llama", "num_hidden_layers": 7}`)),
		"hub/models--Qwen--Qwen2.5-0.5B/snapshots/060db6499f32/config.json": string(whole(`{"model_type": "qwen2", "num_hidden_layers": 9}`)),
	}
	read := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	for arg, want := range map[string]string{
		"mine.yaml": "mine 12", "notes": "notes 12", "config.json": "config 3", "ckpt/config.json": "ckpt 5", "ckpt": "ckpt 5", "spec.json": "spec 2",
		"gpt2": "gpt2 12", "meta-llama/Llama-3.2-1B": "Llama-3.2-1B 7", "hub/models--Qwen--Qwen2.5-0.5B/snapshots/060db6499f32": "Qwen/Qwen2.5-0.5B 9",
		"meta-llama/Llama-3.2-3B": "llama-3.2-3b 28",
	} {
		s, err := LoadAny(arg, read)
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		if got := fmt.Sprintf("%s %d", s.Name, s.L); got != want {
			t.Errorf("%s: %s, want %s", arg, got, want)
		}
	}

	var ds document.Diagnostics
	if _, err := LoadAny("bad.yaml", read); !errors.As(err, &ds) {
		t.Errorf("bad.yaml: %T", err)
	}
	for arg, want := range map[string]string{
		"lama-3-8b":   "lama-3-8b is no preset and no file (did you mean \"llama-3-8b\"?); a path must exist, and `ckptplan models` lists the presets",
		"nowhere/x":   "nowhere/x: no such file, and no preset of that name; a path must exist, and `ckptplan models` lists the presets",
		"absent.yaml": "absent.yaml: no such file, and no preset of that name; a path must exist, and `ckptplan models` lists the presets",
	} {
		_, err := LoadAny(arg, read)
		var unknown *UnknownPresetError
		if !errors.As(err, &unknown) || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
