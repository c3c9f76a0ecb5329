package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/nearest"
	"ckptplan/internal/optimizer"
)

// value reads one value of the field's type.
func (r *reader) value(s *Spec, f *field, v *yaml.Node) {
	before := len(r.diags)
	switch p := f.ptr(s).(type) {
	case *int:
		*p = r.count(f.key, f.low, v)
	case *float64:
		*p = r.real(f.key, f.span, v)
	case *bool:
		*p = r.truth(f.key, v)
	case *string:
		*p = r.chosen(f, v)
	case *Precision:
		*p = Precision(r.chosen(f, v))
	case *[]string:
		*p = nil
		for _, e := range r.list(f.key, "a, b", v) {
			*p = append(*p, r.chosen(f, e))
		}
	case *[]int:
		*p = nil
		for _, e := range r.list(f.key, "0, 1", v) {
			*p = append(*p, r.count(f.key, f.low, e))
		}
	}
	if len(r.diags) > before {
		r.bad[f.key] = true
	}
}

// chosen reads a word of the field's list.
func (r *reader) chosen(f *field, v *yaml.Node) string {
	return r.word(f.key, v, func(text string) (string, string) { return choose(f, text) })
}

// synonyms are other spellings of accepted words: PyTorch's, Hugging Face's and Lightning's names for the same thing.
var synonyms = map[string]map[string]string{
	"dtype": {
		"float32": "fp32", "float": "fp32", "32-true": "fp32", "bfloat16": "bf16", "bf16-true": "bf16", "float16": "fp16",
		"half": "fp16", "16-true": "fp16", "bf16-mixed": "amp-bf16", "16-mixed": "amp-fp16",
	},
	"train.lora.dtype": {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"},
	"attention":        {"flash-attention-2": "flash2", "flash-2": "flash2"},
	"train.optimizer":  optimizer.Aliases(),
	"activation":       {"gelu-pytorch-tanh": "gelu_tanh", "swish": "silu"},
}

// choose is the accepted word that text spells (case, hyphens and underscores do not matter), or what to say.
func choose(f *field, text string) (word, problem string) {
	w := nearest.Fold(text)
	if s, ok := synonyms[f.key][w]; ok {
		return s, ""
	}
	known := strings.Join(f.enum, ", ")
	word, problem = chosen(f.key, text, f.enum)
	switch {
	case problem == "":
		return word, ""
	case f.key == "attention" && w == "auto":
		return "", "attention: auto names no kernel, and the kernel decides whether S×S scores exist: write one of " + known
	case f.key == "attention" && strings.HasPrefix(w, "flash"):
		return "", fmt.Sprintf("attention: %s is not one of %s (did you mean \"sdpa\", which takes PyTorch's flash kernel, or \"flash2\", the flash-attn package?)", text, known)
	case strings.HasSuffix(f.key, "dtype") && (strings.HasPrefix(w, "fp8") || strings.HasPrefix(w, "float8") || strings.HasPrefix(w, "int") || strings.HasPrefix(w, "nf4") || strings.HasPrefix(w, "fp4")):
		return "", fmt.Sprintf("%s: %s is not modelled: it is one of %s", f.key, text, known)
	}
	return "", problem
}

func copyValue(dst, src any) {
	switch d := dst.(type) {
	case *int:
		*d = *src.(*int)
	case *float64:
		*d = *src.(*float64)
	case *bool:
		*d = *src.(*bool)
	case *string:
		*d = *src.(*string)
	case *Precision:
		*d = *src.(*Precision)
	case *[]string:
		*d = slices.Clone(*src.(*[]string))
	case *[]int:
		*d = slices.Clone(*src.(*[]int))
	}
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case *int:
		return *a == *b.(*int)
	case *float64:
		return *a == *b.(*float64)
	case *bool:
		return *a == *b.(*bool)
	case *string:
		return *a == *b.(*string)
	case *Precision:
		return *a == *b.(*Precision)
	case *[]string:
		return slices.Equal(*a, *b.(*[]string))
	case *[]int:
		return slices.Equal(*a, *b.(*[]int))
	}
	return false
}

// printValue is a value as a document has it.
func printValue(p any) string {
	switch p := p.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *bool:
		return strconv.FormatBool(*p)
	case *string:
		return *p
	case *Precision:
		return string(*p)
	case *[]string:
		return "[" + strings.Join(*p, ", ") + "]"
	case *[]int:
		return strings.ReplaceAll(fmt.Sprint(*p), " ", ", ")
	}
	return ""
}
