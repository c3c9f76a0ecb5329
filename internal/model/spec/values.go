package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/nearest"
	"ckptplan/internal/optimizer"
)

// Value reads one value of the field's type.
func (r *Reader) Value(s *Spec, f *Field, v *yaml.Node) {
	before := len(r.Diags)
	switch p := f.Ptr(s).(type) {
	case *int:
		*p = r.Count(f.Key, f.Low, v)
	case *float64:
		*p = r.Real(f.Key, f.Span, v)
	case *bool:
		*p = r.Truth(f.Key, v)
	case *string:
		*p = r.chosen(f, v)
	case *dtype.Precision:
		*p = dtype.Precision(r.chosen(f, v))
	case *[]string:
		*p = nil
		for _, e := range r.List(f.Key, "a, b", v) {
			*p = append(*p, r.chosen(f, e))
		}
	case *[]int:
		*p = nil
		for _, e := range r.List(f.Key, "0, 1", v) {
			*p = append(*p, r.Count(f.Key, f.Low, e))
		}
	}
	if len(r.Diags) > before {
		r.Bad[f.Key] = true
	}
}

// chosen reads a word of the field's list.
func (r *Reader) chosen(f *Field, v *yaml.Node) string {
	return r.Word(f.Key, v, func(text string) (string, string) { return Choose(f, text) })
}

// synonyms are other spellings of accepted words: PyTorch's, Hugging Face's and Lightning's names for the same thing.
var synonyms = map[string]map[string]string{
	"dtype": {
		"float32": "fp32", "float": "fp32", "32-true": "fp32", "bfloat16": "bf16", "bf16-true": "bf16", "float16": "fp16",
		"half": "fp16", "16-true": "fp16", "bf16-mixed": "amp-bf16", "16-mixed": "amp-fp16",
	},
	"train.lora.dtype": floatNames,
	"weights":          floatNames,
	"autocast":         {"bfloat16": "bf16", "float16": "fp16", "none": "off", "false": "off"},
	"attention":        {"flash-attention-2": "flash2", "flash-2": "flash2"},
	"train.optimizer":  optimizer.Aliases(),
	"activation":       {"gelu-pytorch-tanh": "gelu_tanh", "swish": "silu"},
}

var floatNames = map[string]string{"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}

// Choose is the accepted word that text spells (case, hyphens and underscores do not matter), or what to say.
func Choose(f *Field, text string) (word, problem string) {
	w := nearest.Fold(text)
	if s, ok := synonyms[f.Key][w]; ok {
		return s, ""
	}
	known := strings.Join(f.Enum, ", ")
	word, problem = document.Chosen(f.Key, text, f.Enum)
	switch {
	case problem == "":
		return word, ""
	case f.Key == "attention" && w == "auto":
		return "", "attention: auto names no kernel, and the kernel decides whether S×S scores exist: write one of " + known
	case f.Key == "attention" && strings.HasPrefix(w, "flash"):
		return "", fmt.Sprintf("attention: %s is not one of %s (did you mean \"sdpa\", which takes PyTorch's flash kernel, or \"flash2\", the flash-attn package?)", text, known)
	case (strings.HasSuffix(f.Key, "dtype") || f.Key == "weights") && (strings.HasPrefix(w, "fp8") || strings.HasPrefix(w, "float8") || strings.HasPrefix(w, "int") || strings.HasPrefix(w, "nf4") || strings.HasPrefix(w, "fp4")):
		return "", fmt.Sprintf("%s: %s is not modelled: it is one of %s", f.Key, text, known)
	}
	return "", problem
}

// CopyValue copies one value of a Field over another of the same type.
func CopyValue(dst, src any) {
	switch d := dst.(type) {
	case *int:
		*d = *src.(*int)
	case *float64:
		*d = *src.(*float64)
	case *bool:
		*d = *src.(*bool)
	case *string:
		*d = *src.(*string)
	case *dtype.Precision:
		*d = *src.(*dtype.Precision)
	case *[]string:
		*d = slices.Clone(*src.(*[]string))
	case *[]int:
		*d = slices.Clone(*src.(*[]int))
	}
}

// SameValue compares two values of Fields of the same type.
func SameValue(a, b any) bool {
	switch a := a.(type) {
	case *int:
		return *a == *b.(*int)
	case *float64:
		return *a == *b.(*float64)
	case *bool:
		return *a == *b.(*bool)
	case *string:
		return *a == *b.(*string)
	case *dtype.Precision:
		return *a == *b.(*dtype.Precision)
	case *[]string:
		return slices.Equal(*a, *b.(*[]string))
	case *[]int:
		return slices.Equal(*a, *b.(*[]int))
	}
	return false
}

// PrintValue is a value as a document has it.
func PrintValue(p any) string {
	switch p := p.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *bool:
		return strconv.FormatBool(*p)
	case *string:
		return *p
	case *dtype.Precision:
		return string(*p)
	case *[]string:
		return "[" + strings.Join(*p, ", ") + "]"
	case *[]int:
		return strings.ReplaceAll(fmt.Sprint(*p), " ", ", ")
	}
	return ""
}
