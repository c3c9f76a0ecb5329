package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ckptplan/internal/nearest"
)

// linears are the module names of the nn.Linear and Conv1D layers inside each class's blocks, which are what peft can
// adapt; the head is left out, as peft's all-linear does.
var linears = map[string][]string{
	"gpt2":       {"c_attn", "c_proj", "c_fc"},
	"gpt-neox":   {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	"opt":        {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"},
	"bert":       {"query", "key", "value", "dense"},
	"roberta":    {"query", "key", "value", "dense"},
	"vit":        {"q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"},
	"mixtral":    {"q_proj", "k_proj", "v_proj", "o_proj"},
	"qwen3-moe":  {"q_proj", "k_proj", "v_proj", "o_proj"},
	"phi":        {"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"},
	"phi3":       {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"},
	"starcoder2": {"q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"},
	"falcon":     {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
	"bloom":      {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
}

// linearNames are the names that LoRA targets may have.
func linearNames(s *Spec) []string {
	switch {
	case s.Arch == "t5" && s.Gated:
		return []string{"q", "k", "v", "o", "wi_0", "wi_1", "wo"}
	case s.Arch == "t5":
		return []string{"q", "k", "v", "o", "wi", "wo"}
	case s.Arch == "torch-encoder" || s.Arch == "custom":
		return nil
	case s.Arch == "qwen3-moe" && s.MoE != nil && (len(s.MoE.DenseLayers) > 0 || s.MoE.SparseStep > 1), linears[s.Arch] == nil:
		return []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
	}
	return linears[s.Arch]
}

// defaultTargets are peft's own (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING), else q_proj and v_proj.
func defaultTargets(arch string) []string {
	switch arch {
	case "gpt2":
		return []string{"c_attn"}
	case "gpt-neox", "bloom", "falcon":
		return []string{"query_key_value"}
	case "bert", "roberta":
		return []string{"query", "value"}
	case "t5":
		return []string{"q", "v"}
	case "phi":
		return []string{"q_proj", "v_proj", "fc1", "fc2"}
	case "phi3": // not in peft's table; its q, k and v are one layer
		return []string{"qkv_proj"}
	}
	return []string{"q_proj", "v_proj"}
}

// TakesLoRA is true for a model that adapters of rank r can be added to.
func (s *Spec) TakesLoRA(r int) bool {
	names := linearNames(s)
	return r <= s.H && !slices.ContainsFunc(defaultTargets(s.Arch), func(t string) bool { return !slices.Contains(names, t) })
}

// expandTargets replaces all-linear by the names of the arch's layers.
func expandTargets(s *Spec, targets []string) []string {
	if len(targets) == 1 && nearest.Fold(targets[0]) == "all-linear" {
		return slices.Clone(linearNames(s))
	}
	return targets
}

// ParseLoRA reads r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj. Only r is needed: alpha is 2r, dropout 0,
// dtype fp32; without targets they are left empty, and Override takes the defaults of the model's arch.
func ParseLoRA(text string) (*LoRA, error) {
	l := &LoRA{DType: "fp32"}
	const form = "r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj"
	keys := []string{"r", "alpha", "dropout", "dtype", "targets"}
	var seen []string
	for part := range strings.SplitSeq(text, ",") {
		name, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.ToLower(strings.TrimSpace(name))
		v = strings.TrimSpace(v)
		if alias := aliases[strings.ReplaceAll(name, "-", "_")]; !slices.Contains(keys, name) && slices.Contains(keys, alias) {
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
		w, problem := choose(fieldOf("train.lora.dtype"), v)
		if problem != "" {
			return fmt.Errorf("lora: %s", strings.TrimPrefix(problem, "train.lora."))
		}
		l.DType = w
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
