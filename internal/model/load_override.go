package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// Overrides are settings of the command line that replace those of the spec. Zero values and nil leave the spec's.
type Overrides struct {
	Batch      *int       // --batch
	Seq        *int       // --seq
	DecoderSeq *int       // --decoder-seq
	Precision  string     // --precision
	Weights    string     // --weights
	Autocast   string     // --autocast
	Attention  string     // --attention
	Activation string     // --activation
	Norm       string     // --norm
	Optimizer  string     // --optimizer
	KeepLogits *bool      // --keep-logits
	GradAccum  *int       // --grad-accum
	LossChunks *int       // --loss-chunks
	LoRA       *string    // --lora, in the form of ParseLoRA, or a file
	QLoRA      *string    // --qlora, likewise; its base is nf4 unless it says
	Adapters   *spec.LoRA // what the file says that one of them names, in place of its text
}

// FlagOf is the flag that sets what a trainer, a config or a spec calls name, or "".
func FlagOf(name string) string {
	for alias, key := range spec.Aliases {
		if nearest.Fold(alias) == nearest.Fold(name) {
			return spec.FlagOf(key)
		}
	}
	return spec.FlagOf(name)
}

// Override applies o to a loaded spec through the validation of Load. An error names the flag; the spec is then
// unchanged. Warnings are renewed, and Defaults no longer list what a flag gives.
func Override(s *spec.Spec, o Overrides) error {
	t := *s
	var set []string
	for _, c := range []struct {
		key string
		v   *int
		p   *int
	}{{"B", o.Batch, &t.B}, {"S", o.Seq, &t.S}, {"decoder_S", o.DecoderSeq, &t.DecoderS}, {"train.grad_accum", o.GradAccum, &t.Train.GradAccum}, {"train.loss_chunks", o.LossChunks, &t.Train.LossChunks}} {
		if c.v == nil {
			continue
		}
		if *c.v < 1 {
			return fmt.Errorf("%s %d: it is a whole number of at least 1", spec.FlagOf(c.key), *c.v)
		}
		*c.p = *c.v
		set = append(set, c.key)
	}
	for _, w := range []struct {
		key, v string
		put    func(string)
	}{
		{"dtype", o.Precision, func(v string) { t.Precision, t.Weights, t.Autocast = dtype.Precision(v), "", "" }},
		{"weights", o.Weights, func(v string) { t.Weights = v }},
		{"autocast", o.Autocast, func(v string) { t.Autocast = v }},
		{"attention", o.Attention, func(v string) { t.Attention = v }},
		{"activation", o.Activation, func(v string) { t.Activation = v }},
		{"norm", o.Norm, func(v string) { t.Norm = v }},
		{"train.optimizer", o.Optimizer, func(v string) { t.Train.Optimizer = v }},
	} {
		if w.v == "" {
			continue
		}
		word, problem := spec.Choose(spec.FieldOf(w.key), w.v)
		if problem != "" {
			return fmt.Errorf("%s %s", spec.FlagOf(w.key), strings.TrimPrefix(problem, w.key+": "))
		}
		w.put(word)
		set = append(set, w.key)
	}
	t.SettlePrecision()
	if o.KeepLogits != nil {
		t.Train.KeepLogits = *o.KeepLogits
		set = append(set, "train.keep_logits")
	}
	if o.LoRA != nil && o.QLoRA != nil {
		return errors.New("--lora and --qlora: give one of them")
	}
	if text := cmp.Or(o.LoRA, o.QLoRA); text != nil {
		l, err := o.adapters(*text)
		switch {
		case err != nil && o.QLoRA != nil:
			return fmt.Errorf("--q%w", err)
		case err != nil:
			return fmt.Errorf("--%w", err)
		case o.QLoRA != nil:
			l.Base = cmp.Or(l.Base, "nf4")
		}
		if len(l.Targets) == 0 {
			l.Targets = class.Of(t.Arch).Targets
		}
		l.Targets = expandTargets(&t, l.Targets)
		t.Train.LoRA, t.Train.Finetune = l, "lora"
		set = append(set, "train.lora")
	}
	switch {
	case o.DecoderSeq != nil && t.DecoderL == 0:
		return fmt.Errorf("--decoder-seq: arch %s has no decoder beside its layers: --seq is the length of all", t.Arch)
	case o.DecoderSeq == nil && o.Seq != nil && t.DecoderL > 0 && t.DecoderS == s.S:
		t.DecoderS = t.S
	}
	if ps := problems(&t); len(ps) > 0 {
		if f := spec.FlagOf(ps[0].Key); f != "" {
			return fmt.Errorf("%s: %s", f, ps[0].Text)
		}
		return fmt.Errorf("%s", ps[0].Text)
	}
	t.Warnings = append(slices.DeleteFunc(slices.Clone(s.Warnings), func(w string) bool { return slices.Contains(s.Doubts(), w) }), t.Doubts()...)
	t.Defaults = slices.DeleteFunc(slices.Clone(s.Defaults), func(word string) bool {
		return slices.ContainsFunc(set, func(key string) bool { return tells(word, key) })
	})
	*s = t
	return nil
}

// adapters are what --lora or --qlora gives. A file's are copied: a spec fills in what they leave out.
func (o Overrides) adapters(text string) (*spec.LoRA, error) {
	if o.Adapters == nil {
		return spec.ParseLoRA(text)
	}
	l := *o.Adapters
	return &l, nil
}

// tells is true if an entry of Spec.Defaults is about the key.
func tells(word, key string) bool {
	switch key {
	case "train.optimizer":
		return strings.HasPrefix(word, "optimizer ")
	case "train.keep_logits":
		return strings.HasPrefix(word, "logits ")
	}
	return strings.HasPrefix(word, key+" ")
}
