package model

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/nearest"
)

// LoadHF reads a Hugging Face config.json as it is: missing keys take the defaults of that model class, old names of
// keys are known, keys that do not change the training step are ignored. The length, batch and precision of the run,
// which a config.json does not hold, are min(max_position_embeddings, 2048), 1 and its dtype (bf16 if null); Defaults
// lists them. replaced are keys of the run (dtype, attention) that the caller sets itself: what the file says of them is
// how its checkpoint was saved, and is not read. The error is a Diagnostics.
func LoadHF(name string, src []byte, replaced ...string) (*Spec, error) {
	r := newReader(newSource(name, src))
	if r.unreadable(src, "a config.json") {
		return nil, r.diags
	}
	root := r.json(src)
	if root == nil {
		return nil, r.diags
	}
	c := &hfConfig{config: &config{reader: r, root: root}, replaced: replaced}
	cl := c.class()
	if cl == nil {
		return nil, r.diags
	}
	s := c.read(cl)
	if len(r.diags) == 0 {
		for _, p := range problems(s) {
			if p.key == "dtype" && c.dtype != nil {
				c.at(c.dtype, "%s", p.text)
			} else {
				c.key(p.key, "%s", p.text)
			}
		}
	}
	if len(r.diags) > 0 {
		return nil, r.sorted()
	}
	if c.get("model_type") == nil {
		s.Defaults = append(s.Defaults, "model_type "+cl.modelType()+" (from architectures)")
	}
	if len(c.architectures()) == 0 && len(cl.heads) > 1 {
		s.Defaults = append(s.Defaults, "architectures "+cl.heads[0])
	}
	s.Defaults = append(s.Defaults, defaultsInWords(s, func(key string) bool { return key == "arch" || r.given(key) })...)
	s.Warnings = s.doubts()
	return s, nil
}

// hfConfig is a config.json being read, and the run that a spec made of it describes.
type hfConfig struct {
	*config
	replaced []string   // keys of the run that the caller sets itself
	dtype    *yaml.Node // where the precision of the run comes from, or nil
}

// class finds the model class and refuses what is not modelled of it.
func (c *hfConfig) class() *class {
	cl := c.named()
	if cl == nil {
		return nil
	}
	for _, h := range c.architectures() {
		if !cl.hasHead(h.Value) {
			c.at(h, "%s is not modelled: of %s only %s is; to train that from this checkpoint, name it here", h.Value, cl.modelType(), strings.Join(cl.heads, " or "))
		}
	}
	if q := c.get("quantization_config"); q != nil {
		c.at(q, "quantization_config: quantized weights are not modelled: only fp32, bf16 and fp16 are")
	}
	for _, o := range concat(cl.only, recorded) {
		if v := c.get(o.name); v != nil && !sameScalar(v, o.value) {
			c.at(v, "%s with %s: %s is not modelled: only %s is", cl.modelType(), o.name, shown(v), o.value)
		}
	}
	c.wholeHeads(cl)
	return cl
}

// named is the class that model_type names. Configs of 2019 have none: from_pretrained of the class itself reads them, and
// their architectures name it.
func (c *hfConfig) named() *class {
	mt := c.get("model_type")
	if mt == nil && len(c.architectures()) > 0 {
		for _, cl := range classes {
			if cl.hasHead(c.architectures()[0].Value) {
				return cl
			}
		}
	}
	if mt == nil || mt.Kind != yaml.ScalarNode || mt.Tag != "!!str" {
		c.line(1, 1, "no model_type: a Hugging Face config.json has one, such as \"llama\"")
		return nil
	}
	cl := classOf(mt.Value)
	if cl == nil || len(cl.heads) == 0 {
		var modelled []string
		for _, k := range classes {
			if len(k.heads) > 0 {
				modelled = append(modelled, k.modelType())
			}
		}
		c.at(mt, "%s", notModelled("model_type", mt.Value, modelled))
		return nil
	}
	return cl
}

// wholeHeads refuses partial_rotary_factor where it breaks a class that rotates whole heads. Such a class ignores it in
// its own rotary table, but the tables of a scaled rope_type are as wide as the factor says.
// Source: transformers/modeling_rope_utils.py, ROPE_INIT_FUNCTIONS, and compute_default_rope_parameters of each class.
func (c *hfConfig) wholeHeads(cl *class) {
	v := c.rotary()
	if v == nil || sameScalar(v, "1") || cl.spec.Positions != "rotary" || cl.honours("rotary_fraction") {
		return
	}
	for _, name := range []string{"rope_type", "type"} {
		if t := c.rope(name); t != nil && t.Value != "default" && t.Value != "proportional" {
			c.at(v, "%s with partial_rotary_factor: %s and %s: %s is no model: its rotary table would be narrower than its heads", cl.modelType(), shown(v), name, shown(t))
			return
		}
	}
}

// notModelled is the one sentence that refuses a class.
func notModelled(key, got string, known []string) string {
	text := fmt.Sprintf("%s %q is not modelled: modelled are %s", key, got, strings.Join(known, ", "))
	if n := nearest.Name(got, known); n != "" {
		text += fmt.Sprintf(" (nearest: %q)", n)
	}
	return text
}

// derive applies the class's own rules, and those of all.
func (c *hfConfig) derive(s *Spec, cl *class) {
	if c.null("num_key_value_heads") {
		s.KVHeads = s.Heads
	}
	if c.null("sliding_window") {
		s.SlidingWindow = 0
	}
	if cl.derive != nil {
		cl.derive(c.config, s)
	}
	if !slices.Contains(s.LayerTypes, "sliding_attention") && len(s.LayerTypes) > 0 && !cl.keepsWindow {
		s.LayerTypes, s.SlidingWindow = nil, 0
	}
}

// read fills a spec: class defaults, then the keys that are there, then what follows from them.
func (c *hfConfig) read(cl *class) *Spec {
	s := &Spec{Name: nameOf(c.file), Arch: cl.arch}
	if n := c.get("_name_or_path"); n != nil && n.Kind == yaml.ScalarNode && n.Value != "" && !strings.ContainsAny(n.Value, "\n") {
		s.Name = n.Value
	}
	base := &cl.spec
	openSection(s, map[bool]string{true: "moe"}[base.MoE != nil])
	openSection(s, map[bool]string{true: "image"}[base.Image != nil])
	for i := range fields {
		f := &fields[i]
		if hasSection(s, f) && hasSection(base, f) && f.key != "arch" && f.key != "name" {
			copyValue(f.ptr(s), f.ptr(base))
		}
	}
	c.keys(s, cl)
	c.derive(s, cl)
	c.run(s, cl)

	known := func(key string) bool {
		if c.given(key) {
			return true
		}
		switch key { // in place already: a class default that does not follow the sizes
		case "L", "H", "heads":
			return true
		case "kv_heads":
			return s.KVHeads > 0
		case "ffn":
			return s.FFN > 0
		case "max_positions":
			return s.MaxS > 0
		case "decoder_L":
			return s.DecoderL > 0
		}
		f := fieldOf(key)
		return !sized(key) && f != nil && hasSection(base, f)
	}
	if s.Heads > 0 && s.H > 0 {
		fill(s, known)
	}
	return s
}

// keys reads the keys of the class's table that are there and not null.
func (c *hfConfig) keys(s *Spec, cl *class) {
	for _, k := range cl.keys {
		v := c.get(k.name)
		if k.name == "partial_rotary_factor" {
			v = c.rotary()
		}
		if v == nil {
			continue
		}
		if strings.HasPrefix(k.spec, "image.") && v.Kind == yaml.SequenceNode && len(v.Content) == 2 {
			if v.Content[0].Value != v.Content[1].Value {
				c.at(v, "%s: [%s, %s] is not modelled: only squares are", k.name, v.Content[0].Value, v.Content[1].Value)
				continue
			}
			v = v.Content[0] // [224, 224]
		}
		for path := range strings.FieldsSeq(k.spec) {
			if c.given(path) && c.spec[path] != v {
				continue // the name that wins comes first in the table
			}
			c.spec[path] = v
			before := len(c.diags)
			c.value(s, fieldOf(path), v)
			if len(c.diags) > before {
				break
			}
		}
	}
}

// run sets what belongs to the run and not to the model: S, B, dtype, attention.
func (c *hfConfig) run(s *Spec, cl *class) {
	s.B = 1
	s.S = 2048
	switch {
	case s.Image != nil && s.Image.Patch > 0:
		side := s.Image.Size / s.Image.Patch
		s.S = side*side + 1
	case s.MaxS > 0:
		s.S = min(s.S, max(1, s.MaxS-cl.offset))
	case cl.seq > 0:
		s.S = cl.seq
	}
	s.Precision = Default
	for _, name := range []string{"dtype", "torch_dtype"} {
		v := c.get(name)
		if v == nil || slices.Contains(c.replaced, "dtype") {
			continue
		}
		c.dtype = v
		if v.Value == "auto" {
			break
		}
		word, problem := choose(fieldOf("dtype"), strings.TrimPrefix(v.Value, "torch."))
		if problem != "" {
			c.at(v, "%s", problem)
		}
		s.Precision = Precision(word)
		break
	}
	for _, name := range []string{"attn_implementation", "_attn_implementation"} {
		if v := c.get(name); v != nil && !c.given("attention") && !slices.Contains(c.replaced, "attention") {
			c.spec["attention"] = v
			c.value(s, fieldOf("attention"), v)
		}
	}
}
