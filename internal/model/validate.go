package model

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/nearest"
)

// problems are the contradictions among the values of a filled spec.
func problems(s *Spec) []problem {
	var ps []problem
	add := func(key, format string, args ...any) { ps = append(ps, problem{key, fmt.Sprintf(format, args...)}) }
	c := classOf(s.Arch)

	if n := s.Train.LossChunks; n > 1 && !s.Chunkable() {
		add("train.loss_chunks", "loss_chunks is for causal language models: arch %s computes its loss in one piece", s.Arch)
	} else if n > 1 && n > s.B*s.S {
		add("train.loss_chunks", "loss_chunks %d is more than the %d tokens of a micro batch", n, s.B*s.S)
	}
	if s.HeadDim*s.Heads != s.H && s.HeadDim == s.H/s.Heads && s.H%s.Heads != 0 && (c == nil || !c.ownHeadDim) {
		add("heads", "heads %d does not divide H %d: choose heads that do, or give head_dim", s.Heads, s.H)
	} else if s.HeadDim == 0 {
		add("heads", "heads %d is more than H %d", s.Heads, s.H)
	}
	if d := int(float64(s.HeadDim) * s.Rotary); s.Positions == "rotary" && d%2 == 1 && d == s.HeadDim {
		add("heads", "head_dim %d is odd: rotary positions turn pairs of a head's elements", d)
	}
	if s.KVHeads > 0 && s.Heads%s.KVHeads != 0 {
		add("kv_heads", "kv_heads %d does not divide heads %d", s.KVHeads, s.Heads)
	}
	if c != nil {
		if c.problems != nil {
			c.problems(s, add)
		}
		if !c.takesNorm(s.Norm) {
			add("norm", "norm %s does not suit arch %s, which takes %s", s.Norm, s.Arch, c.normWords())
		}
		if s.Activation != c.spec.Activation && slices.Contains(c.own, "activation") {
			add("activation", "activation %s does not suit arch %s, which has its own %s", s.Activation, s.Arch, c.spec.Activation)
		}
		if s.Labels == 1 && c.classifies() {
			add("labels", "labels 1: a regression's loss is not modelled: only the cross-entropy of 2 classes or more is")
		}
		if c.honours("dropout.classifier") && s.Labels == 0 && s.Dropout.Classifier > 0 {
			add("dropout.classifier", "dropout.classifier %g: only a classifier has it: give labels", s.Dropout.Classifier)
		}
	}
	if s.LabelsOf != "" && s.Labels == 0 {
		add("labels_of", "labels_of %s: only a classifier has labels: give labels", s.LabelsOf)
	}
	if s.LabelsOf == "span" && s.Labels > 0 && s.Labels != 2 {
		add("labels", "labels %d: a span has two ends: labels_of span goes with labels 2", s.Labels)
	}
	if s.L > maxLayers {
		add("L", "L %d is above %d layers", s.L, maxLayers)
	}
	if n := s.Train.GradAccum; n > maxAccum {
		add("train.grad_accum", "grad_accum %d is above %d micro batches", n, maxAccum)
	}
	if s.Positions == "learned" && s.Image == nil && s.MaxS > 0 && c != nil && s.S+c.offset > s.MaxS {
		add("S", "S %d is more than the %d learned positions (max_positions)", s.S, s.MaxS-c.offset)
	}
	ps = append(ps, s.windowProblems()...)
	ps = append(ps, s.moeProblems()...)
	ps = append(ps, s.imageProblems()...)
	ps = append(ps, trainProblems(s)...)
	ps = append(ps, s.parallelProblems()...)
	if c != nil && c.eager && s.Attention != "eager" {
		add("attention", "attention %s: the %s class of Hugging Face has eager attention only", s.Attention, s.Arch)
	}
	if s.Attention == "flash2" {
		if err := s.flash2(); err != nil {
			add("attention", "%v", err)
		}
	}
	if len(ps) == 0 {
		if key, text := s.furthestAbove(); text != "" {
			add(key, "%s", text)
		}
	}
	return ps
}

func trainProblems(s *Spec) (ps []problem) {
	add := func(key, format string, args ...any) { ps = append(ps, problem{key, fmt.Sprintf(format, args...)}) }
	l := s.Train.LoRA
	switch {
	case l == nil && s.Train.Finetune == "lora":
		add("train.finetune", "finetune: lora needs train.lora, such as {r: 16}")
	case l != nil && s.Train.Finetune == "full":
		add("train.finetune", "finetune: full and train.lora contradict each other: remove one")
	}
	if l == nil {
		return ps
	}
	if l.Rank < 1 {
		add("train.lora.r", "train.lora needs r, the rank, such as {r: 16}")
	} else if l.Rank > s.H {
		add("train.lora.r", "train.lora.r %d: the rank is from 1 to H, %d", l.Rank, s.H)
	}
	known := linearNames(s)
	if len(known) == 0 {
		add("train.lora", "arch %s has no linear layers that peft names: LoRA is not modelled for it", s.Arch)
		return ps
	}
	if len(l.Targets) == 0 {
		add("train.lora.targets", "train.lora.targets is empty: known for %s are %s, all-linear", s.Arch, strings.Join(known, ", "))
	}
	for i, t := range l.Targets {
		switch {
		case slices.Contains(l.Targets[:i], t):
			add("train.lora.targets", "train.lora.targets has %s twice", t)
		case !slices.Contains(known, t):
			text := fmt.Sprintf("train.lora.targets: %q is no linear layer of %s; known are %s, all-linear", t, s.Arch, strings.Join(known, ", "))
			if n := nearest.Name(t, known); n != "" {
				text += fmt.Sprintf(" (did you mean %q?)", n)
			}
			add("train.lora.targets", "%s", text)
		}
	}
	return ps
}

// unvaried reports the keys given with a value that the arch's class cannot have.
func unvaried(r *reader, s *Spec) {
	c := classOf(s.Arch)
	if c == nil || c.arch == "custom" {
		return
	}
	standard := &Spec{Arch: s.Arch, L: s.L, S: s.S, H: s.H, B: s.B, Heads: s.Heads, Precision: s.Precision}
	fill(standard, func(key string) bool { return key == "arch" || slices.Contains(required, key) })
	for i := range fields {
		f := &fields[i]
		if f.key == "head_dim" && s.Heads > 0 && s.H%s.Heads != 0 && !c.honours(f.key) && r.given(f.key) && !r.bad["heads"] {
			r.bad["heads"], r.bad[f.key] = true, true
			r.key("heads", "heads %d does not divide H %d, and arch %s has no other head_dim than H/heads", s.Heads, s.H, c.arch)
		}
		if !r.given(f.key) || r.bad[f.key] || c.honours(f.key) || (hasSection(standard, f) && sameValue(f.ptr(s), f.ptr(standard))) {
			continue
		}
		r.bad[f.key] = true
		if in, _, _ := strings.Cut(f.key, "."); r.spec[in] == r.spec[f.key] && in != f.key { // bias: false
			if !r.bad[in] {
				r.key(in, "%s: %s does not suit arch %s: give its places apart", in, r.spec[in].Value, c.arch)
			}
			r.bad[in] = true
			continue
		}
		v := ""
		if hasSection(standard, f) {
			v = printValue(f.ptr(standard))
		}
		if v == "" || v == "0" || v == "[]" {
			r.key(f.key, "%s: arch %s has none", f.key, c.arch)
		} else {
			r.key(f.key, "%s: arch %s has %s only", f.key, c.arch, v)
		}
	}
}

// FusesNorm is true for a model with a composed RMSNorm that a fused kernel could compute.
func FusesNorm(s *Spec) bool {
	c := classOf(s.Arch)
	return s.Norm == "rmsnorm" && c != nil && c.fusesNorm()
}
