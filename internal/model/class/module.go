package class

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"ckptplan/internal/model/spec"
)

// Module describes the Hugging Face class of a spec for a program that runs it (internal/exec/torch/runner).
type Module struct {
	Auto   string         `json:"auto"`   // the class of transformers that makes the model
	Config map[string]any `json:"config"` // its config.json
	// Unsayable is why no config describes the spec, or empty.
	Unsayable string          `json:"unsayable,omitempty"`
	Parts     map[string]Part `json:"parts"` // by span
	Tuple     bool            `json:"tuple"` // a layer returns a tuple
	// FirstID is the first token id that is no padding, where positions count the tokens that are none.
	FirstID int `json:"first_id,omitempty"`
}

// Part says how a part of a layer runs as one region. Paths name modules inside the layer; a number counts a list, from its
// end if negative. The kinds are:
//
//	module       the module At
//	modules      each of the modules At that the layer has
//	row          the modules At, one called after the other
//	method       the layer's method At
//	core         the attention function that the module At calls with itself as the first argument
//	kernel       the same where the module At calls PyTorch's function by its name
//	fan          the module At, and the modules Readers of Owner that read what it gives
//	gated        a gated MLP At, behind its gate's projection
//	packed       a gated MLP At, behind the one projection for gate and up
//	after first  a T5 MLP At, behind its first projection
type Part struct {
	Kind    string   `json:"kind"`
	At      []string `json:"at"`
	Owner   string   `json:"owner,omitempty"`
	Readers []string `json:"readers,omitempty"`
}

type parts map[string]Part

func module(at string) Part { return Part{Kind: "module", At: []string{at}} }
func core(at string) Part   { return Part{Kind: "core", At: []string{at}} }
func row(at ...string) Part { return Part{Kind: "row", At: at} }

func fan(first, owner string, readers ...string) Part {
	return Part{Kind: "fan", At: []string{first}, Owner: owner, Readers: readers}
}

// with are the parts with some added or replaced.
func (p parts) with(q parts) parts {
	all := maps.Clone(p)
	maps.Copy(all, q)
	return all
}

// Parts that many decoders share.
var (
	qkv            = []string{"q_proj", "k_proj", "v_proj"}
	attentionParts = parts{"attn": module("self_attn"), "core": core("self_attn"), "norm1": fan("input_layernorm", "self_attn", qkv...)}
	gatedParts     = attentionParts.with(parts{
		"mlp": module("mlp"), "norm2": fan("post_attention_layernorm", "mlp", "gate_proj", "up_proj"), "act": {Kind: "gated", At: []string{"mlp"}},
	})
)

// ModuleOf is the Hugging Face class of a spec; nil for an arch that transformers does not have.
func ModuleOf(s *spec.Spec) *Module {
	c := Of(s.Arch)
	if c == nil || len(c.Heads) == 0 {
		return nil
	}
	m := &Module{Auto: c.auto, Parts: c.parts, Tuple: c.tuple, FirstID: c.Offset}
	if c.autoOf != nil {
		m.Auto = c.autoOf(s)
	} else if m.Auto == "" {
		m.Auto = "AutoModelForCausalLM"
	}
	m.Config, m.Unsayable = c.config(s)
	return m
}

// config is the config.json of a spec: the table of keys from right to left. Of several names of one thing the last, which is
// the configuration class's own, is written. Sizes and words that are 0 or empty are left to the class's default.
func (c *Class) config(s *spec.Spec) (config map[string]any, unsayable string) {
	config = map[string]any{"model_type": c.ModelType()}
	name := map[string]string{}
	for _, k := range c.Keys {
		paths := strings.Fields(k.Spec)
		f := spec.FieldOf(paths[0])
		if !spec.HasSection(s, f) {
			continue
		}
		for _, p := range paths[1:] {
			if g := spec.FieldOf(p); !spec.SameValue(f.Ptr(s), g.Ptr(s)) {
				unsayable = fmt.Sprintf("%s has one key, %s, for %s %s and %s %s", c.Arch, k.Name, f.Key, spec.PrintValue(f.Ptr(s)), g.Key, spec.PrintValue(g.Ptr(s)))
			}
		}
		delete(config, name[f.Key])
		if v := configValue(f, s); v != nil {
			config[k.Name], name[f.Key] = v, k.Name
		} else if f.Key == "sliding_window" {
			config[k.Name] = nil
		}
	}
	if c.encode != nil {
		c.encode(s, config)
	}
	return config, unsayable
}

// real64 is written with a point, 30.0: configuration classes refuse a whole number where they want a real one.
type real64 float64

// MarshalJSON writes the point.
func (x real64) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(x), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}

// configValue is a value as a config.json has it, or nil.
func configValue(f *spec.Field, s *spec.Spec) any {
	switch p := f.Ptr(s).(type) {
	case *int:
		if *p != 0 {
			return *p
		}
	case *float64:
		return real64(*p)
	case *bool:
		return *p
	case *string:
		if f.Key == "activation" && *p == "gelu_tanh" {
			return "gelu_pytorch_tanh"
		}
		if *p != "" {
			return *p
		}
	case *[]string:
		if len(*p) > 0 {
			return *p
		}
	case *[]int:
		if len(*p) > 0 {
			return *p
		}
	}
	return nil
}
