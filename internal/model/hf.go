package model

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/document"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// LoadHF reads a Hugging Face config.json as it is: missing keys take the defaults of that model class, old names of
// keys are known, keys that do not change the training step are ignored. The length, batch and precision of the run,
// which a config.json does not hold, are min(max_position_embeddings, 2048), 1 and its dtype (fp32 if null); Defaults
// lists them. replaced are keys of the run (dtype, attention) that the caller sets itself: what the file says of them is
// how its checkpoint was saved, and is not read. The error is a Diagnostics.
func LoadHF(name string, src []byte, replaced ...string) (*spec.Spec, error) {
	r := spec.NewReader(document.NewSource(name, src))
	if r.Unreadable(src, "a config.json") {
		return nil, r.Diags
	}
	root := r.Json(src)
	if root == nil {
		return nil, r.Diags
	}
	c := &hfConfig{Config: &class.Config{Reader: r, Root: root}, replaced: replaced}
	if c.Get("model_type") == nil && trainerFile(r.Source, root) {
		return nil, r.Diags
	}
	cl := c.class()
	if cl == nil {
		return nil, r.Diags
	}
	s := c.read(cl)
	c.sizes(cl, s)
	if len(r.Diags) == 0 {
		for _, p := range problems(s) {
			if p.Key == "dtype" && c.dtype != nil {
				c.At(c.dtype, "%s", p.Text)
			} else {
				c.Key(p.Key, "%s", p.Text)
			}
		}
	}
	if len(r.Diags) > 0 {
		return nil, r.Sorted()
	}
	if c.Get("model_type") == nil {
		s.Defaults = append(s.Defaults, "model_type "+cl.ModelType()+" (from architectures)")
	}
	if len(c.Architectures()) == 0 && len(cl.Heads) > 1 {
		s.Defaults = append(s.Defaults, "architectures "+cl.Heads[0])
	}
	s.Defaults = append(s.Defaults, defaultsInWords(s, func(key string) bool { return key == "arch" || r.Given(key) })...)
	s.Warnings = s.Doubts()
	return s, nil
}

// hfConfig is a config.json being read, and the run that a spec made of it describes.
type hfConfig struct {
	*class.Config
	replaced []string   // keys of the run that the caller sets itself
	dtype    *yaml.Node // where the precision of the run comes from, or nil
}

// class finds the model class and refuses what is not modelled of it.
func (c *hfConfig) class() *class.Class {
	cl := c.named()
	if cl == nil {
		return nil
	}
	for _, h := range c.Architectures() {
		if !cl.HasHead(h.Value) {
			c.At(h, "%s is not modelled: of %s only %s is; to train that from this checkpoint, name it here", h.Value, cl.ModelType(), strings.Join(cl.Heads, " or "))
		}
	}
	if q := c.Get("quantization_config"); q != nil {
		c.At(q, "quantization_config: quantized weights are not modelled: only fp32, bf16 and fp16 are")
	}
	for _, o := range class.Concat(cl.Only, class.Recorded) {
		if v := c.Get(o.Name); v != nil && !class.SameScalar(v, o.Value) {
			c.At(v, "%s with %s: %s is not modelled: only %s is", cl.ModelType(), o.Name, document.Shown(v), o.Value)
		}
	}
	c.wholeHeads(cl)
	return cl
}

// named is the class that model_type names. Configs of 2019 have none: from_pretrained of the class itself reads them, and
// their architectures name it.
func (c *hfConfig) named() *class.Class {
	mt := c.Get("model_type")
	if mt == nil && len(c.Architectures()) > 0 {
		for _, cl := range class.Classes {
			if cl.HasHead(c.Architectures()[0].Value) {
				return cl
			}
		}
	}
	if mt == nil || mt.Kind != yaml.ScalarNode || mt.Tag != "!!str" {
		c.Line(1, 1, "no model_type: a Hugging Face config.json has one, such as \"llama\"")
		return nil
	}
	cl := class.Of(mt.Value)
	if cl == nil || len(cl.Heads) == 0 {
		var modelled []string
		for _, k := range class.Classes {
			if len(k.Heads) > 0 {
				modelled = append(modelled, k.ModelType())
			}
		}
		c.At(mt, "%s", notModelled("model_type", mt.Value, modelled))
		return nil
	}
	return cl
}

// sizes refuses a config that leaves a size to the class: it would be priced as the class's default model. A name that
// another class has for a size, or a misspelt one, is answered with the class's own.
func (c *hfConfig) sizes(cl *class.Class, s *spec.Spec) {
	for i := 0; i+1 < len(c.Root.Content); i += 2 {
		k, v := c.Root.Content[i], c.Root.Content[i+1]
		if own, key := cl.Meant(k.Value, c.Config); own != "" && !c.Given(key) && v.Tag != "!!null" {
			c.At(k, "unknown key %q: %s calls it %s", k.Value, cl.ModelType(), own)
			c.Bad[key] = true
		}
	}
	if missing := cl.Missing(c.Config); len(missing) > 0 {
		c.Line(1, 1, "missing %s: a config.json says how large its model is; the default sizes of %s are never assumed", strings.Join(missing, ", "), cl.ModelType())
	}
	if v := c.Get("layer_types"); v != nil && v.Kind == yaml.SequenceNode && len(v.Content) != s.L && c.Given("L") && !c.Bad["L"] && !c.Bad["layer_types"] {
		c.At(v, "layer_types has %d entries for L %d layers", len(v.Content), s.L)
	}
}

// wholeHeads refuses partial_rotary_factor where it breaks a class that rotates whole heads. Such a class ignores it in
// its own rotary table, but the tables of a scaled rope_type are as wide as the factor says.
// Source: transformers/modeling_rope_utils.py, ROPE_INIT_FUNCTIONS, and compute_default_rope_parameters of each class.
func (c *hfConfig) wholeHeads(cl *class.Class) {
	v := c.Rotary()
	if v == nil || class.SameScalar(v, "1") || cl.Spec.Positions != "rotary" || cl.Honours("rotary_fraction") {
		return
	}
	for _, name := range []string{"rope_type", "type"} {
		if t := c.Rope(name); t != nil && t.Value != "default" && t.Value != "proportional" {
			c.At(v, "%s with partial_rotary_factor: %s and %s: %s is no model: its rotary table would be narrower than its heads", cl.ModelType(), document.Shown(v), name, document.Shown(t))
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
func (c *hfConfig) derive(s *spec.Spec, cl *class.Class) {
	if c.Null("num_key_value_heads") {
		s.KVHeads = s.Heads
	}
	if c.Null("sliding_window") {
		s.SlidingWindow = 0
	}
	if cl.Derive != nil {
		cl.Derive(c.Config, s)
	}
	if !slices.Contains(s.LayerTypes, "sliding_attention") && len(s.LayerTypes) > 0 && !cl.KeepsWindow {
		s.LayerTypes, s.SlidingWindow = nil, 0
	}
}

// read fills a spec: class defaults, then the keys that are there, then what follows from them.
func (c *hfConfig) read(cl *class.Class) *spec.Spec {
	s := &spec.Spec{Name: nameOf(c.File), Arch: cl.Arch}
	if n := c.Get("_name_or_path"); n != nil && n.Kind == yaml.ScalarNode && n.Value != "" && !strings.ContainsAny(n.Value, "\n") {
		s.Name = n.Value
	}
	base := &cl.Spec
	spec.OpenSection(s, map[bool]string{true: "moe"}[base.MoE != nil])
	spec.OpenSection(s, map[bool]string{true: "image"}[base.Image != nil])
	for i := range spec.Fields {
		f := &spec.Fields[i]
		if spec.HasSection(s, f) && spec.HasSection(base, f) && f.Key != "arch" && f.Key != "name" {
			spec.CopyValue(f.Ptr(s), f.Ptr(base))
		}
	}
	c.keys(s, cl)
	c.derive(s, cl)
	c.run(s, cl)

	known := func(key string) bool {
		if c.Given(key) {
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
		f := spec.FieldOf(key)
		return !sized(key) && f != nil && spec.HasSection(base, f)
	}
	if s.Heads > 0 && s.H > 0 {
		fill(s, known)
	}
	return s
}

// keys reads the keys of the class's table that are there and not null.
func (c *hfConfig) keys(s *spec.Spec, cl *class.Class) {
	for _, k := range cl.Keys {
		v := c.Get(k.Name)
		if k.Name == "partial_rotary_factor" {
			v = c.Rotary()
		}
		if v == nil {
			continue
		}
		if strings.HasPrefix(k.Spec, "image.") && v.Kind == yaml.SequenceNode && len(v.Content) == 2 {
			if v.Content[0].Value != v.Content[1].Value {
				c.At(v, "%s: [%s, %s] is not modelled: only squares are", k.Name, v.Content[0].Value, v.Content[1].Value)
				continue
			}
			v = v.Content[0] // [224, 224]
		}
		for path := range strings.FieldsSeq(k.Spec) {
			if c.Given(path) && c.Spec[path] != v {
				continue // the name that wins comes first in the table
			}
			c.Spec[path] = v
			before := len(c.Diags)
			c.Value(s, spec.FieldOf(path), v)
			if len(c.Diags) > before {
				break
			}
		}
	}
}

// run sets what belongs to the run and not to the model: S, B, dtype, attention.
func (c *hfConfig) run(s *spec.Spec, cl *class.Class) {
	s.B = 1
	s.S = 2048
	switch {
	case s.Image != nil && s.Image.Patch > 0:
		side := s.Image.Size / s.Image.Patch
		s.S = side*side + 1
	case s.MaxS > 0:
		s.S = min(s.S, max(1, s.MaxS-cl.Offset))
	case cl.Seq > 0:
		s.S = cl.Seq
	}
	s.Precision = dtype.FP32 // what from_pretrained loads where a config names no type, as those of before 2021 do not
	if slices.Contains(c.replaced, "dtype") {
		s.Precision = dtype.Default // until the caller's is set: one that every setting goes with
	}
	for _, name := range []string{"dtype", "torch_dtype"} {
		v := c.Get(name)
		if v == nil || slices.Contains(c.replaced, "dtype") {
			continue
		}
		c.dtype = v
		if v.Value == "auto" {
			break
		}
		word, problem := spec.Choose(spec.FieldOf("dtype"), strings.TrimPrefix(v.Value, "torch."))
		if problem != "" {
			c.At(v, "%s", problem)
		}
		s.Precision = dtype.Precision(word)
		break
	}
	for _, name := range []string{"attn_implementation", "_attn_implementation"} {
		if v := c.Get(name); v != nil && !c.Given("attention") && !slices.Contains(c.replaced, "attention") {
			c.Spec["attention"] = v
			c.Value(s, spec.FieldOf("attention"), v)
		}
	}
}
