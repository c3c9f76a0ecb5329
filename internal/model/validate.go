package model

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// Chunkable is true if the model's head and loss can be computed in parts: of causal language models.
func Chunkable(s *spec.Spec) bool {
	c := class.Of(s.Arch)
	return c != nil && c.Causal() && s.Labels == 0
}

// problems are the contradictions among the values of a filled spec.
func problems(s *spec.Spec) []spec.Problem {
	var ps []spec.Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, spec.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
	}
	c := class.Of(s.Arch)

	if n := s.Train.LossChunks; n > 1 && !Chunkable(s) {
		add("train.loss_chunks", "loss_chunks is for causal language models: arch %s computes its loss in one piece", s.Arch)
	} else if n > 1 && n > s.B*s.S {
		add("train.loss_chunks", "loss_chunks %d is more than the %d tokens of a micro batch", n, s.B*s.S)
	}
	if s.HeadDim*s.Heads != s.H && s.HeadDim == s.H/s.Heads && s.H%s.Heads != 0 && (c == nil || !c.OwnHeadDim) {
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
		if c.Problems != nil {
			c.Problems(s, add)
		}
		if !c.TakesNorm(s.Norm) {
			add("norm", "norm %s does not suit arch %s, which takes %s", s.Norm, s.Arch, c.NormWords())
		}
		if s.Activation != c.Spec.Activation && slices.Contains(c.Own, "activation") {
			add("activation", "activation %s does not suit arch %s, which has its own %s", s.Activation, s.Arch, c.Spec.Activation)
		}
		if s.Labels == 1 && c.Classifies() {
			add("labels", "labels 1: a regression's loss is not modelled: only the cross-entropy of 2 classes or more is")
		}
		if c.Honours("dropout.classifier") && s.Labels == 0 && s.Dropout.Classifier > 0 {
			add("dropout.classifier", "dropout.classifier %g: only a classifier has it: give labels", s.Dropout.Classifier)
		}
	}
	if s.LabelsOf != "" && s.Labels == 0 {
		add("labels_of", "labels_of %s: only a classifier has labels: give labels", s.LabelsOf)
	}
	if s.LabelsOf != "" && c != nil && !c.Labels(s.LabelsOf) {
		add("labels_of", "labels_of %s: arch %s has no such head", s.LabelsOf, s.Arch)
	}
	if s.LabelsOf == "span" && s.Labels > 0 && s.Labels != 2 {
		add("labels", "labels %d: a span has two ends: labels_of span goes with labels 2", s.Labels)
	}
	if s.L > spec.MaxLayers {
		add("L", "L %d is above %d layers", s.L, spec.MaxLayers)
	}
	if n := s.Train.GradAccum; n > spec.MaxAccum {
		add("train.grad_accum", "grad_accum %d is above %d micro batches", n, spec.MaxAccum)
	}
	if s.Positions == "learned" && s.Image == nil && s.MaxS > 0 && c != nil && s.S+c.Offset > s.MaxS {
		add("S", "S %d is more than the %d learned positions (max_positions)", s.S, s.MaxS-c.Offset)
	}
	ps = append(ps, s.WindowProblems()...)
	ps = append(ps, s.MoEProblems()...)
	ps = append(ps, s.ImageProblems()...)
	ps = append(ps, trainProblems(s)...)
	ps = append(ps, s.ParallelProblems()...)
	if c != nil && c.Eager && s.Attention != "eager" {
		add("attention", "attention %s: the %s class of Hugging Face has eager attention only", s.Attention, s.Arch)
	}
	if s.Attention == "flash2" {
		if err := s.Flash2(); err != nil {
			add("attention", "%v", err)
		}
	}
	if len(ps) == 0 {
		if key, text := s.FurthestAbove(); text != "" {
			add(key, "%s", text)
		}
	}
	return ps
}

func trainProblems(s *spec.Spec) (ps []spec.Problem) {
	add := func(key, format string, args ...any) {
		ps = append(ps, spec.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
	}
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
	if c := class.Of(s.Arch); l.Base != "" && c != nil {
		switch {
		case c.OwnLinear:
			add("train.lora.base", "train.lora.base %s: the linear layers of arch %s are a class of its own, for which a quantised base is not modelled", l.Base, s.Arch)
		case !Chunkable(s) || s.EmbedDim > 0 || s.MoE != nil:
			add("train.lora.base", "train.lora.base %s: a quantised base is modelled for causal language models without experts or a projected embedding", l.Base)
		}
	}
	known := linearNames(s)
	if len(known) == 0 {
		add("train.lora", "arch %s has no linear layers that peft names: LoRA is not modelled for it", s.Arch)
		return ps
	}
	if len(l.Targets) == 0 {
		add("train.lora.targets", "train.lora.targets is empty: known for %s are %s, all-linear", s.Arch, strings.Join(known, ", "))
	}
	known = targetNames(s)
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
func unvaried(r *spec.Reader, s *spec.Spec) {
	c := class.Of(s.Arch)
	if c == nil || c.Arch == "custom" {
		return
	}
	standard := &spec.Spec{Arch: s.Arch, L: s.L, S: s.S, H: s.H, B: s.B, Heads: s.Heads, Precision: s.Precision}
	fill(standard, func(key string) bool { return key == "arch" || slices.Contains(spec.Required, key) })
	for i := range spec.Fields {
		f := &spec.Fields[i]
		if f.Key == "head_dim" && s.Heads > 0 && s.H%s.Heads != 0 && !c.Honours(f.Key) && r.Given(f.Key) && !r.Bad["heads"] {
			r.Bad["heads"], r.Bad[f.Key] = true, true
			r.Key("heads", "heads %d does not divide H %d, and arch %s has no other head_dim than H/heads", s.Heads, s.H, c.Arch)
		}
		if !r.Given(f.Key) || r.Bad[f.Key] || c.Honours(f.Key) || (spec.HasSection(standard, f) && spec.SameValue(f.Ptr(s), f.Ptr(standard))) {
			continue
		}
		r.Bad[f.Key] = true
		if in, _, _ := strings.Cut(f.Key, "."); r.Spec[in] == r.Spec[f.Key] && in != f.Key { // bias: false
			if !r.Bad[in] {
				r.Key(in, "%s: %s does not suit arch %s: give its places apart", in, r.Spec[in].Value, c.Arch)
			}
			r.Bad[in] = true
			continue
		}
		v := ""
		if spec.HasSection(standard, f) {
			v = spec.PrintValue(f.Ptr(standard))
		}
		if v == "" || v == "0" || v == "[]" {
			r.Key(f.Key, "%s: arch %s has none", f.Key, c.Arch)
		} else {
			r.Key(f.Key, "%s: arch %s has %s only", f.Key, c.Arch, v)
		}
	}
}

// FusesNorm is true for a model with a composed RMSNorm that a fused kernel could compute.
func FusesNorm(s *spec.Spec) bool {
	c := class.Of(s.Arch)
	return s.Norm == "rmsnorm" && c != nil && c.FusesNorm()
}
