package model

import (
	"encoding/json"
	"strings"
	"testing"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
)

// A config.json made of a spec describes that spec: the table of keys reads what it wrote.
func TestConfigIsInverse(t *testing.T) {
	for _, p := range Presets() {
		s, err := LoadPreset(p.Name)
		if err != nil {
			t.Fatal(err)
		}
		m := class.ModuleOf(s)
		if m == nil {
			continue
		}
		text, err := json.Marshal(m.Config)
		if err != nil || m.Unsayable != "" {
			t.Fatal(p.Name, err, m.Unsayable)
		}
		got, err := LoadHF("config.json", text)
		if err != nil {
			t.Errorf("%s: %v\n%s", p.Name, err, text)
			continue
		}
		for i := range spec.Fields {
			f := &spec.Fields[i]
			switch {
			case strings.HasPrefix(f.Key, "train.") || strings.HasPrefix(f.Key, "parallel.") || !spec.HasSection(s, f):
				continue
			case f.Key == "name", f.Key == "S", f.Key == "B", f.Key == "dtype", f.Key == "decoder_S", f.Key == "attention", f.Key == "checkpoint", f.Key == "max_positions" && s.MaxS == 0: // of the run
				continue
			}
			if !spec.SameValue(f.Ptr(s), f.Ptr(got)) {
				t.Errorf("%s: %s is %s, of its config %s", p.Name, f.Key, spec.PrintValue(f.Ptr(s)), spec.PrintValue(f.Ptr(got)))
			}
		}
	}
}

// Real numbers have a point: Gemma2Config and others refuse 30 for 30.0. Names are those of the configuration class, not of
// its attribute_map.
func TestConfigWords(t *testing.T) {
	for doc, want := range map[string][]string{
		"arch: gemma2\n":                     {`"final_logit_softcapping":30.0`, `"hidden_activation":"gelu_pytorch_tanh"`, `"model_type":"gemma2"`},
		"arch: gpt2\ndropout: 0\n":           {`"n_embd":64`, `"attn_pdrop":0.0`, `"n_layer":2`},
		"arch: mistral\nsliding_window: 0\n": {`"sliding_window":null`, `"num_key_value_heads":4`},
		"arch: t5\ngated: true\n":            {`"is_gated_act":true`, `"num_decoder_layers":2`, `"d_kv":64`},
	} {
		s, err := Load("x", []byte(doc+"L: 2\nS: 16\nH: 64\nB: 1\nheads: 4\nvocab: 128\ndtype: bf16\n"))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(class.ModuleOf(s).Config)
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s: no %s in %s", doc, w, text)
			}
		}
	}
	s, err := Load("x", []byte("arch: llama\nbias: {qkv: true}\nL: 2\nS: 16\nH: 64\nB: 1\nheads: 4\ndtype: bf16\n"))
	if err != nil {
		t.Fatal(err)
	}
	if m := class.ModuleOf(s); !strings.Contains(m.Unsayable, "attention_bias") {
		t.Errorf("LlamaConfig has one key for both biases, but %q", m.Unsayable)
	}
}
