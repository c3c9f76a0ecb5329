package model

import (
	"reflect"
	"slices"
	"testing"

	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
)

func TestOverride(t *testing.T) {
	s, err := LoadPreset("llama-3-8b")
	if err != nil {
		t.Fatal(err)
	}
	batch, seq, accum, chunks, keep, lora := 4, 1024, 2, 8, false, "r=8,targets=all-linear"
	if err := Override(s, Overrides{
		Batch: &batch, Seq: &seq, Precision: "amp_bf16", Attention: "Eager", Optimizer: "adamw_loop", KeepLogits: &keep, GradAccum: &accum, LossChunks: &chunks, LoRA: &lora,
	}); err != nil {
		t.Fatal(err)
	}
	want := spec.Train{Optimizer: "adamw-loop", GradAccum: 2, LossChunks: 8, Finetune: "lora", LoRA: &spec.LoRA{
		Rank: 8, Alpha: 16, DType: "fp32", Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	}}
	if s.B != 4 || s.S != 1024 || s.Precision != dtype.AmpBF || s.Attention != "eager" || !reflect.DeepEqual(s.Train, want) {
		t.Errorf("%+v", s)
	}
	for _, word := range []string{"optimizer adamw", "logits kept during backward"} {
		if slices.Contains(s.Defaults, word) {
			t.Errorf("%q is no default any more", word)
		}
	}
	big := 512
	if err := Override(s, Overrides{Batch: &big}); err != nil || len(s.Warnings) != 1 {
		t.Errorf("%v %q", err, s.Warnings)
	}
	if err := Override(s, Overrides{Batch: &batch}); err != nil || len(s.Warnings) != 0 {
		t.Errorf("%v %q", err, s.Warnings)
	}
}

func TestOverrideRefuses(t *testing.T) {
	zero, long, vast := 0, 2048, 1<<40
	text := func(s string) *string { return &s }
	for name, tt := range map[string]struct {
		preset string
		o      Overrides
		want   string
	}{
		"batch 0":       {"gpt2", Overrides{Batch: &zero}, "--batch 0: it is a whole number of at least 1"},
		"grad accum 0":  {"gpt2", Overrides{GradAccum: &zero}, "--grad-accum 0: it is a whole number of at least 1"},
		"too long":      {"gpt2", Overrides{Seq: &long}, "--seq: S 2048 is more than the 1024 learned positions (max_positions)"},
		"image":         {"vit-base", Overrides{Seq: &long}, "--seq: S 2048 is not the 196 patches of a 224×224 image plus 1 (the class token): write S: 197"},
		"precision":     {"gpt2", Overrides{Precision: "fp8"}, "--precision fp8 is not modelled: it is one of fp32, bf16, fp16, amp-bf16, amp-fp16"},
		"attention":     {"gpt2", Overrides{Attention: "auto"}, "--attention auto names no kernel, and the kernel decides whether S×S scores exist: write one of eager, sdpa, math, flash2"},
		"eager only":    {"t5-base", Overrides{Attention: "sdpa"}, "--attention: attention sdpa: the t5 class of Hugging Face has eager attention only"},
		"optimizer":     {"gpt2", Overrides{Optimizer: "lion"}, `--optimizer "lion" is not one of adamw, adamw-loop, adamw-fused, sgd, sgd-momentum, rmsprop, adamw-8bit, lion-8bit, none`},
		"vast":          {"llama-3-8b", Overrides{Batch: &vast}, "--batch: the step would need more than 1 PB: a unit slip? The largest input is B: 1099511627776"},
		"LoRA target":   {"gpt2", Overrides{LoRA: text("r=8,targets=q_proj")}, `--lora: train.lora.targets: "q_proj" is no linear layer of gpt2; known are c_attn, c_proj, c_fc, lm_head, all-linear (did you mean "c_proj"?)`},
		"decoder":       {"gpt2", Overrides{DecoderSeq: new(int)}, "--decoder-seq 0: it is a whole number of at least 1"},
		"LoRA rank":     {"gpt2", Overrides{LoRA: text("r=1000")}, "--lora: train.lora.r 1000: the rank is from 1 to H, 768"},
		"LoRA spelling": {"gpt2", Overrides{LoRA: text("r:8")}, `--lora: "r:8" is not key=value; the form is r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := LoadPreset(tt.preset)
			if err != nil {
				t.Fatal(err)
			}
			before := *s
			if err := Override(s, tt.o); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if !reflect.DeepEqual(before, *s) {
				t.Error("the spec changed")
			}
		})
	}
}

func TestParseLoRA(t *testing.T) {
	for text, want := range map[string]spec.LoRA{
		"r=16": {Rank: 16, Alpha: 32, DType: "fp32"},
		" r=16 , alpha=8, dropout=0.1, dtype=bfloat16, targets=q_proj+v_proj ": {Rank: 16, Alpha: 8, Dropout: 0.1, DType: "bf16", Targets: []string{"q_proj", "v_proj"}},
	} {
		if got, err := spec.ParseLoRA(text); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	const form = "; the form is r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj"
	for text, want := range map[string]string{
		"":                      `lora: "" is not key=value` + form,
		"alpha=3":               "lora: r is missing" + form,
		"r=0":                   "lora: r=0: the rank is a whole number of at least 1",
		"r=1.5":                 "lora: r=1.5: the rank is a whole number of at least 1",
		"r=8,r=9":               "lora: r is given twice",
		"rank=8":                `lora: unknown key "rank" (did you mean "r"?)` + form,
		"r=8,alhpa=3":           `lora: unknown key "alhpa" (did you mean "alpha"?)` + form,
		"r=8,alpha=-1":          "lora: alpha=-1: it is a number above 0",
		"r=8,alpha=NaN":         "lora: alpha=NaN: it is a number above 0",
		"r=8,dropout=1":         "lora: dropout=1: it is a number from 0 to below 1",
		"r=8,dtype=int8":        "lora: dtype: int8 is not modelled: it is one of fp32, bf16, fp16",
		"r=8,targets=":          `lora: "targets=" is not key=value` + form,
		"r=8,targets=q+q":       "lora: targets=q+q: names joined by +, each once",
		"r=8,targets=q_proj++v": "lora: targets=q_proj++v: names joined by +, each once",
	} {
		if _, err := spec.ParseLoRA(text); err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
