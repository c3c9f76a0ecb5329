package document

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/nearest"
)

// Count reads a whole number of at least low.
func (r *Source) Count(where string, low int, v *yaml.Node) int {
	form := "a whole number of at least " + strconv.Itoa(low)
	if v.Kind != yaml.ScalarNode {
		r.At(v, "%s is %s, not %s", where, form, KindOf(v))
		return 0
	}
	switch v.Tag {
	case "!!int":
		if r.octal(where, v) {
			return 0
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(v.Value, "_", ""), 0, 64)
		switch {
		case err != nil || n > math.MaxInt32*1024:
			r.At(v, "%s: %s is out of range", where, v.Value)
		case n < int64(low):
			r.At(v, "%s: %d, but it is %s", where, n, form)
		}
		return int(n)
	case "!!float":
		x, err := strconv.ParseFloat(strings.ReplaceAll(v.Value, "_", ""), 64)
		switch {
		case err == nil && strings.Trim(v.Value, "0123456789") == "":
			r.At(v, "%s: %s is out of range", where, v.Value)
		case err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<31:
			r.At(v, "%s: %s is a real number: write %.0f", where, v.Value, x)
		default:
			r.At(v, "%s: %s, but it is %s", where, v.Value, form)
		}
	case "!!bool":
		r.At(v, "%s: %s is a truth value, but it is %s", where, v.Value, form)
	case "!!null":
		r.At(v, "%s has no value: it is %s", where, form)
	default:
		if n, ok := spelledCount(v.Value); ok {
			r.At(v, "%s: %q is a word: write %d", where, v.Value, n)
		} else {
			r.At(v, "%s: %q, but it is %s", where, v.Value, form)
		}
	}
	return 0
}

// octal reports a whole number with a leading 0, which YAML 1.1 reads as octal and YAML 1.2 and people as decimal.
func (r *Source) octal(where string, v *yaml.Node) bool {
	digits := strings.TrimLeft(v.Value, "+-")
	if len(digits) < 2 || digits[0] != '0' || strings.Trim(digits, "0123456789_") != "" {
		return false
	}
	r.At(v, "%s: %s starts with 0, which some readers take for octal: write %s", where, v.Value, cmp.Or(strings.TrimLeft(digits, "0_"), "0"))
	return true
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

// Real reads a number within a span.
func (r *Source) Real(where string, span RealSpan, v *yaml.Node) float64 {
	form := [...]string{"a number from 0 to below 1", "a number above 0, at most 1", "a number above 0"}[span]
	if v.Kind != yaml.ScalarNode {
		r.At(v, "%s is %s, not %s", where, form, KindOf(v))
		return 0
	}
	if v.Tag == "!!int" && r.octal(where, v) {
		return 0
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(v.Value, "_", ""), 64)
	ok := err == nil && (v.Tag == "!!int" || v.Tag == "!!float") && !math.IsInf(x, 0)
	switch span {
	case Probability:
		ok = ok && x >= 0 && x < 1
	case Share:
		ok = ok && x > 0 && x <= 1
	case Positive:
		ok = ok && x > 0
	}
	if !ok {
		r.At(v, "%s: %s, but it is %s", where, Shown(v), form)
		return 0
	}
	return x
}

// Truth reads true or false.
func (r *Source) Truth(where string, v *yaml.Node) bool {
	if v.Kind == yaml.ScalarNode && (v.Tag == "!!bool") {
		switch strings.ToLower(v.Value) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	r.At(v, "%s: %s, but it is true or false", where, Shown(v))
	return false
}

// RealSpan is a range of real numbers.
type RealSpan uint8

const (
	Probability RealSpan = iota // [0, 1)
	Share                       // (0, 1]
	Positive                    // (0, ∞)
)

// Resolve is the node that an alias stands for.
func Resolve(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 8; i++ {
		n = n.Alias
	}
	return n
}

// KindOf names what a node is, for messages.
func KindOf(n *yaml.Node) string {
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

// Shown is a scalar as written, or what kind of node it is.
func Shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Value != "" && n.Tag != "!!str" {
		return n.Value
	}
	return KindOf(n)
}

// List are the elements of a list; example is what its error shows inside the brackets.
func (r *Source) List(where, example string, v *yaml.Node) []*yaml.Node {
	if v.Kind != yaml.SequenceNode {
		r.At(v, "%s is a list such as [%s], not %s", where, example, KindOf(v))
		return nil
	}
	elements := make([]*yaml.Node, len(v.Content))
	for i, e := range v.Content {
		elements[i] = Resolve(e)
	}
	return elements
}

// Word reads a word; oneOf gives the accepted word that it spells, or says what is wrong with it.
func (r *Source) Word(where string, v *yaml.Node, oneOf func(text string) (word, problem string)) string {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" || v.Value == "" {
		r.At(v, "%s is a word, not %s", where, KindOf(v))
		return ""
	}
	w, problem := oneOf(v.Value)
	if problem != "" {
		r.At(v, "%s", problem)
	}
	return w
}

// Chosen is the word of a list that text spells (case, hyphens and underscores do not matter), or what to say. Any word will do
// without a list.
func Chosen(where, text string, words []string) (word, problem string) {
	if words == nil {
		return text, ""
	}
	w := nearest.Fold(text)
	for _, e := range words {
		if w == nearest.Fold(e) {
			return e, ""
		}
	}
	problem = fmt.Sprintf("%s: %q is not one of %s", where, text, strings.Join(words, ", "))
	if n := nearest.Name(text, words); n != "" {
		problem += fmt.Sprintf(" (did you mean %q?)", n)
	}
	return "", problem
}
