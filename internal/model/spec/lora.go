package spec

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ckptplan/internal/nearest"
)

// ParseLoRA reads r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj. Only r is needed: alpha is 2r, dropout 0,
// dtype fp32; without targets they are left empty, and Override takes the defaults of the model's arch. base=nf4 quantises the
// frozen layers.
func ParseLoRA(text string) (*LoRA, error) {
	l := &LoRA{DType: "fp32"}
	const form = "r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj"
	keys := []string{"r", "alpha", "dropout", "dtype", "targets", "base"}
	var seen []string
	for part := range strings.SplitSeq(text, ",") {
		name, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.ToLower(strings.TrimSpace(name))
		v = strings.TrimSpace(v)
		if alias := Aliases[strings.ReplaceAll(name, "-", "_")]; !slices.Contains(keys, name) && slices.Contains(keys, alias) {
			return nil, fmt.Errorf("lora: unknown key %q (did you mean %q?); the form is %s", name, alias, form)
		}
		switch {
		case !ok || v == "":
			return nil, fmt.Errorf("lora: %q is not key=value; the form is %s", part, form)
		case slices.Contains(seen, name):
			return nil, fmt.Errorf("lora: %s is given twice", name)
		}
		seen = append(seen, name)
		if err := l.set(name, v, form, keys); err != nil {
			return nil, err
		}
	}
	if l.Rank < 1 {
		return nil, fmt.Errorf("lora: r is missing; the form is %s", form)
	}
	if l.Alpha == 0 {
		l.Alpha = float64(2 * l.Rank)
	}
	return l, nil
}

func (l *LoRA) set(name, v, form string, keys []string) error {
	switch name {
	case "r":
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > math.MaxInt32 {
			return fmt.Errorf("lora: r=%s: the rank is a whole number of at least 1", v)
		}
		l.Rank = n
	case "alpha":
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("lora: alpha=%s: it is a number above 0", v)
		}
		l.Alpha = x
	case "dropout":
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !(x >= 0 && x < 1) {
			return fmt.Errorf("lora: dropout=%s: it is a number from 0 to below 1", v)
		}
		l.Dropout = x
	case "dtype":
		w, problem := Choose(FieldOf("train.lora.dtype"), v)
		if problem != "" {
			return fmt.Errorf("lora: %s", strings.TrimPrefix(problem, "train.lora."))
		}
		l.DType = w
	case "base":
		w, problem := Choose(FieldOf("train.lora.base"), v)
		if problem != "" {
			return fmt.Errorf("lora: %s", strings.TrimPrefix(problem, "train.lora."))
		}
		l.Base = w
	case "targets":
		for t := range strings.SplitSeq(v, "+") {
			t = strings.TrimSpace(t)
			if t == "" || slices.Contains(l.Targets, t) {
				return fmt.Errorf("lora: targets=%s: names joined by +, each once", v)
			}
			l.Targets = append(l.Targets, t)
		}
	default:
		text := fmt.Sprintf("lora: unknown key %q", name)
		if n := nearest.Name(name, keys); n != "" {
			text += fmt.Sprintf(" (did you mean %q?)", n)
		}
		return fmt.Errorf("%s; the form is %s", text, form)
	}
	return nil
}
