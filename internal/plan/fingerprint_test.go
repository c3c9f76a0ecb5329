package plan

import (
	"errors"
	"strings"
	"testing"

	"ckptplan/internal/model"
)

// What changes the bytes of a step changes the fingerprint; what does not, does not.
func TestFingerprintCoversWhatDecidesTheStep(t *testing.T) {
	base := Fingerprint(preset(t, "llama-3-8b"))
	for name, change := range map[string]func(*model.Spec){
		"B":           func(s *model.Spec) { s.B++ },
		"S":           func(s *model.Spec) { s.S++ },
		"dtype":       func(s *model.Spec) { s.Precision = "amp-bf16" },
		"attention":   func(s *model.Spec) { s.Attention = "eager" },
		"optimizer":   func(s *model.Spec) { s.Train.Optimizer = "sgd" },
		"keep_logits": func(s *model.Spec) { s.Train.KeepLogits = !s.Train.KeepLogits },
		"grad_accum":  func(s *model.Spec) { s.Train.GradAccum = 2 },
		"dropout":     func(s *model.Spec) { s.Dropout.Attention = 0.1 },
		"lora":        func(s *model.Spec) { s.Train.LoRA = &model.LoRA{Rank: 8} },
		"arch":        func(s *model.Spec) { s.Arch = "qwen3" },
	} {
		s := *preset(t, "llama-3-8b")
		change(&s)
		if Fingerprint(&s) == base {
			t.Errorf("%s does not change it", name)
		}
	}
	for name, change := range map[string]func(*model.Spec){
		"name":       func(s *model.Spec) { s.Name = "mine" },
		"checkpoint": func(s *model.Spec) { s.Checkpoint = "full" },
		"notes":      func(s *model.Spec) { s.Defaults, s.Warnings = []string{"x"}, []string{"y"} },
	} {
		s := *preset(t, "llama-3-8b")
		change(&s)
		if Fingerprint(&s) != base {
			t.Errorf("%s changes it", name)
		}
	}
}

// Two writers of the same spec, or two versions of ckptplan, must agree: the value is part of the file format.
func TestFingerprintIsStable(t *testing.T) {
	s := &model.Spec{Name: "x", Arch: "gpt2", L: 2, H: 64, Heads: 4, S: 128, B: 1, Precision: "bf16"}
	// printf '%s\n' B=1 H=64 L=2 S=128 'arch="gpt2"' 'dtype="bf16"' heads=4 | sha256sum | cut -c1-12
	if got := Fingerprint(s); got != "3b44482cdb73" {
		t.Error(got)
	}
}

func TestMismatchNamesBoth(t *testing.T) {
	s := preset(t, "llama-3-8b")
	f := NewFile(&Plan{Strategy: "none"}, s, "0.1.0")
	other := *s
	other.Name, other.B, other.S = "mine", s.B+1, s.S*2
	err := f.Match(&other)
	var m *MismatchError
	if !errors.As(err, &m) {
		t.Fatalf("%T %v", err, err)
	}
	for _, want := range []string{"made for llama-3-8b (" + Fingerprint(s) + "), not mine (" + Fingerprint(&other) + ")", "B 1, not 2", "S 8192, not 16384"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	f.Spec = nil
	if err := f.Match(&other); !errors.As(err, &m) || m.Differences != nil {
		t.Error(err)
	}
	renamed := *s
	renamed.Name = "mine"
	if err := f.Match(&renamed); err != nil {
		t.Error(err)
	}
}
