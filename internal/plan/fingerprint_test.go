package plan

import (
	"errors"
	"strings"
	"testing"

	"ckptplan/internal/model/spec"
)

// What changes the bytes of a step changes the fingerprint; what does not, does not.
func TestFingerprintCoversWhatDecidesTheStep(t *testing.T) {
	base := Fingerprint(preset(t, "llama-3-8b"))
	for name, change := range map[string]func(*spec.Spec){
		"B":           func(s *spec.Spec) { s.B++ },
		"S":           func(s *spec.Spec) { s.S++ },
		"dtype":       func(s *spec.Spec) { s.Precision = "amp-bf16" },
		"attention":   func(s *spec.Spec) { s.Attention = "eager" },
		"optimizer":   func(s *spec.Spec) { s.Train.Optimizer = "sgd" },
		"keep_logits": func(s *spec.Spec) { s.Train.KeepLogits = !s.Train.KeepLogits },
		"grad_accum":  func(s *spec.Spec) { s.Train.GradAccum = 2 },
		"dropout":     func(s *spec.Spec) { s.Dropout.Attention = 0.1 },
		"lora":        func(s *spec.Spec) { s.Train.LoRA = &spec.LoRA{Rank: 8} },
		"arch":        func(s *spec.Spec) { s.Arch = "qwen3" },
	} {
		s := *preset(t, "llama-3-8b")
		change(&s)
		if Fingerprint(&s) == base {
			t.Errorf("%s does not change it", name)
		}
	}
	for name, change := range map[string]func(*spec.Spec){
		"name":       func(s *spec.Spec) { s.Name = "mine" },
		"checkpoint": func(s *spec.Spec) { s.Checkpoint = "full" },
		"notes":      func(s *spec.Spec) { s.Defaults, s.Warnings = []string{"x"}, []string{"y"} },
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
	s := &spec.Spec{Name: "x", Arch: "gpt2", L: 2, H: 64, Heads: 4, S: 128, B: 1, Precision: "bf16"}
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
