package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/nearest"
)

// value reads one value of the field's type.
func (r *reader) value(s *Spec, f *field, v *yaml.Node) {
	before := len(r.diags)
	switch p := f.ptr(s).(type) {
	case *int:
		*p = r.count(f, v)
	case *float64:
		*p = r.real(f, v)
	case *bool:
		*p = r.truth(f, v)
	case *string:
		*p = r.word(f, v)
	case *Precision:
		*p = Precision(r.word(f, v))
	case *[]string:
		*p = nil
		for _, e := range r.list(f, v) {
			*p = append(*p, r.word(f, e))
		}
	case *[]int:
		*p = nil
		for _, e := range r.list(f, v) {
			*p = append(*p, r.count(f, e))
		}
	}
	if len(r.diags) > before {
		r.bad[f.key] = true
	}
}

func (r *reader) count(f *field, v *yaml.Node) int {
	form := "a whole number of at least " + strconv.Itoa(f.low)
	if v.Kind != yaml.ScalarNode {
		r.at(v, "%s is %s, not %s", f.key, form, kindOf(v))
		return 0
	}
	switch v.Tag {
	case "!!int":
		n, err := strconv.ParseInt(strings.ReplaceAll(v.Value, "_", ""), 0, 64)
		switch {
		case err != nil || n > math.MaxInt32*1024:
			r.at(v, "%s: %s is out of range", f.key, v.Value)
		case n < int64(f.low):
			r.at(v, "%s: %d, but it is %s", f.key, n, form)
		}
		return int(n)
	case "!!float":
		x, err := strconv.ParseFloat(strings.ReplaceAll(v.Value, "_", ""), 64)
		if err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<31 {
			r.at(v, "%s: %s is a real number: write %.0f", f.key, v.Value, x)
		} else {
			r.at(v, "%s: %s, but it is %s", f.key, v.Value, form)
		}
	case "!!bool":
		r.at(v, "%s: %s is a truth value, but it is %s", f.key, v.Value, form)
	case "!!null":
		r.at(v, "%s has no value: it is %s", f.key, form)
	default:
		if n, ok := spelledCount(v.Value); ok {
			r.at(v, "%s: %q is a word: write %d", f.key, v.Value, n)
		} else {
			r.at(v, "%s: %q, but it is %s", f.key, v.Value, form)
		}
	}
	return 0
}

// spelledCount reads the counts that people write as words: "4096", 4,096, 8k (8192: sizes of models are powers of
// two), 32K, 128Ki, 1M.
func spelledCount(s string) (int64, bool) {
	digits := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), ",", ""), "_", "")
	scale := int64(1)
	low := strings.TrimSuffix(strings.ToLower(digits), "i")
	if cut, ok := strings.CutSuffix(low, "k"); ok {
		low, scale = cut, 1<<10
	} else if cut, ok := strings.CutSuffix(low, "m"); ok {
		low, scale = cut, 1<<20
	}
	n, err := strconv.ParseInt(strings.TrimSpace(low), 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt32 {
		return 0, false
	}
	return n * scale, true
}

func (r *reader) real(f *field, v *yaml.Node) float64 {
	form := [...]string{"a number from 0 to below 1", "a number above 0, at most 1", "a number above 0"}[f.span]
	if v.Kind != yaml.ScalarNode {
		r.at(v, "%s is %s, not %s", f.key, form, kindOf(v))
		return 0
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(v.Value, "_", ""), 64)
	ok := err == nil && (v.Tag == "!!int" || v.Tag == "!!float") && !math.IsInf(x, 0)
	switch f.span {
	case probability:
		ok = ok && x >= 0 && x < 1
	case share:
		ok = ok && x > 0 && x <= 1
	case positive:
		ok = ok && x > 0
	}
	if !ok {
		r.at(v, "%s: %s, but it is %s", f.key, shown(v), form)
		return 0
	}
	return x
}

func (r *reader) truth(f *field, v *yaml.Node) bool {
	if v.Kind == yaml.ScalarNode && (v.Tag == "!!bool") {
		switch strings.ToLower(v.Value) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	r.at(v, "%s: %s, but it is true or false", f.key, shown(v))
	return false
}

func (r *reader) word(f *field, v *yaml.Node) string {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" || v.Value == "" {
		r.at(v, "%s is a word, not %s", f.key, kindOf(v))
		return ""
	}
	if f.enum == nil {
		return v.Value
	}
	w, problem := choose(f, v.Value)
	if problem != "" {
		r.at(v, "%s", problem)
	}
	return w
}

func (r *reader) list(f *field, v *yaml.Node) []*yaml.Node {
	if v.Kind != yaml.SequenceNode {
		r.at(v, "%s is a list such as [%s], not %s", f.key, map[bool]string{true: "a, b", false: "0, 1"}[f.key != "moe.dense_layers"], kindOf(v))
		return nil
	}
	elements := make([]*yaml.Node, len(v.Content))
	for i, e := range v.Content {
		elements[i] = resolve(e)
	}
	return elements
}

// synonyms are other spellings of accepted words: PyTorch's, Hugging Face's and Lightning's names for the same thing.
var synonyms = map[string]map[string]string{
	"dtype": {
		"float32": "fp32", "float": "fp32", "32-true": "fp32", "bfloat16": "bf16", "bf16-true": "bf16", "float16": "fp16",
		"half": "fp16", "16-true": "fp16", "bf16-mixed": "amp-bf16", "16-mixed": "amp-fp16",
	},
	"train.lora.dtype": {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"},
	"attention":        {"flash-attention-2": "flash2", "flash-2": "flash2"},
	"train.optimizer":  {"adamw-torch": "adamw", "adamw-torch-fused": "adamw-fused"},
	"activation":       {"gelu-pytorch-tanh": "gelu_tanh", "swish": "silu"},
}

// choose is the accepted word that text spells (case, hyphens and underscores do not matter), or what to say.
func choose(f *field, text string) (word, problem string) {
	w := nearest.Fold(text)
	if s, ok := synonyms[f.key][w]; ok {
		return s, ""
	}
	for _, e := range f.enum {
		if w == nearest.Fold(e) {
			return e, ""
		}
	}
	known := strings.Join(f.enum, ", ")
	switch {
	case f.key == "attention" && w == "auto":
		return "", "attention: auto names no kernel, and the kernel decides whether S×S scores exist: write one of " + known
	case f.key == "attention" && strings.HasPrefix(w, "flash"):
		return "", fmt.Sprintf("attention: %s is not one of %s (did you mean \"sdpa\", which takes PyTorch's flash kernel, or \"flash2\", the flash-attn package?)", text, known)
	case strings.HasSuffix(f.key, "dtype") && (strings.HasPrefix(w, "fp8") || strings.HasPrefix(w, "float8") || strings.HasPrefix(w, "int") || strings.HasPrefix(w, "nf4") || strings.HasPrefix(w, "fp4")):
		return "", fmt.Sprintf("%s: %s is not modelled: it is one of %s", f.key, text, known)
	}
	problem = fmt.Sprintf("%s: %q is not one of %s", f.key, text, known)
	if n := nearest.Name(text, f.enum); n != "" {
		problem += fmt.Sprintf(" (did you mean %q?)", n)
	}
	return "", problem
}

func resolve(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 8; i++ {
		n = n.Alias
	}
	return n
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" || n.Value == "" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

// shown is a scalar as written, or what kind of node it is.
func shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Value != "" && n.Tag != "!!str" {
		return n.Value
	}
	return kindOf(n)
}
