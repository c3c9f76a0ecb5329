package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ckptplan/internal/model/spec"
)

// Fingerprint is a short hash of everything in a spec that decides what a training step allocates: arch and sizes,
// switches, and the settings of the step (B, S, dtype, attention, optimizer, adapters, …). A plan is optimal, and its
// predicted peak true, for these values only, so B, S and the precision are part of it. The model's name and the
// strategy that the spec asks for are not: no plan depends on them.
//
// The hash is of lines "key=value" in the order of the keys, without those that are zero, false or empty; a key that
// is added to Spec with such a default changes no fingerprint.
func Fingerprint(s *spec.Spec) string {
	h := sha256.New()
	values := flatten(s)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(h, "%s=%s\n", k, values[k])
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// flatten is a spec as values by key path, in JSON's notation, without the keys that change no allocation.
func flatten(s *spec.Spec) map[string]string {
	src, err := json.Marshal(s)
	if err != nil {
		panic("plan: a spec is always JSON: " + err.Error())
	}
	out := map[string]string{}
	var walk func(prefix string, src json.RawMessage)
	walk = func(prefix string, src json.RawMessage) {
		var section map[string]json.RawMessage
		if json.Unmarshal(src, &section) == nil && section != nil {
			for k, v := range section {
				walk(prefix+"."+k, v)
			}
			return
		}
		switch text := string(src); text {
		case "0", "false", `""`, "null", "[]":
		default:
			out[strings.TrimPrefix(prefix, ".")] = text
		}
	}
	walk("", src)
	delete(out, "name")
	delete(out, "checkpoint")
	return out
}

// MismatchError is returned for a plan that was made for another model or other settings.
type MismatchError struct {
	Made, Given                       string // the models' names
	MadeFingerprint, GivenFingerprint string
	Differences                       []string // "B 4, not 8"; unknown (nil) for a file without its spec
}

func (e *MismatchError) Error() string {
	text := fmt.Sprintf("made for %s (%s), not %s (%s)", e.Made, e.MadeFingerprint, e.Given, e.GivenFingerprint)
	const shown = 4
	switch n := len(e.Differences); {
	case n > shown:
		text += fmt.Sprintf(": %s and %d more", strings.Join(e.Differences[:shown], "; "), n-shown)
	case n > 0:
		text += ": " + strings.Join(e.Differences, "; ")
	}
	return text
}

// Match says whether the plan can be used for s: it was made for a spec of the same fingerprint, or it names no model
// (a plan written by hand) and its layers exist in s. The error is a *MismatchError or says which layers do not exist.
func (f *File) Match(s *spec.Spec) error {
	if f.Model == nil {
		if ps := check(f.Nodes, LayersOf(s)); len(ps) > 0 {
			return fmt.Errorf("%s: %s", ps[0].path, ps[0].text)
		}
		return nil
	}
	given := Fingerprint(s)
	if given == f.Model.Fingerprint {
		return nil
	}
	e := &MismatchError{Made: f.Model.Name, Given: s.Name, MadeFingerprint: f.Model.Fingerprint, GivenFingerprint: given}
	if f.Spec != nil {
		e.Differences = differences(f.Spec, s)
	}
	return e
}

// differences are the values that two specs do not share, in words.
func differences(made, given *spec.Spec) []string {
	a, b := flatten(made), flatten(given)
	all := maps.Clone(a)
	maps.Copy(all, b)
	var ds []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if a[k] != b[k] {
			ds = append(ds, fmt.Sprintf("%s %s, not %s", k, plain(a[k]), plain(b[k])))
		}
	}
	return ds
}

// plain is a JSON value for a sentence.
func plain(v string) string {
	if v == "" {
		return "unset"
	}
	return strings.Trim(v, `"`)
}

// LayersOf is the number of layers that strategies count: encoder layers, then decoder layers.
func LayersOf(s *spec.Spec) int { return s.L + s.DecoderL }
