package model

import (
	"fmt"
	"slices"
	"strconv"
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
	r := newReader(name, src)
	if r.unreadable(src, "a config.json") {
		return nil, r.diags
	}
	root := r.json(src)
	if root == nil {
		return nil, r.diags
	}
	c := &hfConfig{reader: r, root: root, replaced: replaced}
	cl := c.class()
	if cl == nil {
		return nil, r.diags
	}
	s := c.read(cl)
	if len(r.diags) == 0 {
		for _, p := range s.problems() {
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

// hfConfig is a config.json being read: a reader whose keys are translated by the class's table.
type hfConfig struct {
	*reader
	root     *yaml.Node
	replaced []string   // keys of the run that the caller sets itself
	dtype    *yaml.Node // where the precision of the run comes from, or nil
}

// get is the value of a key, or nil if it is missing or null.
func (c *hfConfig) get(name string) *yaml.Node {
	if v := c.raw(name); v != nil && v.Tag != "!!null" {
		return v
	}
	return nil
}

// when is true for a key with that value, which then decides a key of the spec.
func (c *hfConfig) when(name, value, spec string) bool {
	v := c.get(name)
	if v == nil || v.Value != value {
		return false
	}
	c.spec[spec] = v
	return true
}

// null is true for a key that is there with the value null.
func (c *hfConfig) null(name string) bool {
	v := c.raw(name)
	return v != nil && v.Tag == "!!null"
}

// raw is the value of a key; of a key given twice the last, as Python's json has it.
func (c *hfConfig) raw(name string) *yaml.Node {
	for i := len(c.root.Content) - 2; i >= 0; i -= 2 {
		if c.root.Content[i].Value == name {
			return c.root.Content[i+1]
		}
	}
	return nil
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
		for i := range classes {
			if classes[i].hasHead(c.architectures()[0].Value) {
				return &classes[i]
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
		for i := range classes {
			if len(classes[i].heads) > 0 {
				modelled = append(modelled, classes[i].modelType())
			}
		}
		c.at(mt, "%s", notModelled("model_type", mt.Value, modelled))
		return nil
	}
	return cl
}

// architectures are the names of the classes that the checkpoint was saved from.
func (c *hfConfig) architectures() []*yaml.Node {
	if a := c.get("architectures"); a != nil && a.Kind == yaml.SequenceNode {
		return a.Content
	}
	return nil
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

func sameScalar(v *yaml.Node, want string) bool {
	if v.Kind != yaml.ScalarNode {
		return false
	}
	if v.Value == want {
		return true
	}
	a, errA := strconv.ParseFloat(v.Value, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return errA == nil && errB == nil && a == b
}

// rotary is partial_rotary_factor where old and new configs have it.
func (c *hfConfig) rotary() *yaml.Node {
	if v := c.rope("partial_rotary_factor"); v != nil {
		return v
	}
	return c.get("partial_rotary_factor")
}

// rope is a key of the rotary parameters, or nil.
func (c *hfConfig) rope(name string) *yaml.Node {
	for _, in := range []string{"rope_parameters", "rope_scaling"} {
		if m := c.get(in); m != nil && m.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(m.Content); i += 2 {
				if v := m.Content[i+1]; m.Content[i].Value == name && v.Tag != "!!null" {
					return v
				}
			}
		}
	}
	return nil
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
	c.run(s)

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

// derive follows the rules of the configuration classes' __post_init__.
func (c *hfConfig) derive(s *Spec, cl *class) {
	if c.null("num_key_value_heads") {
		s.KVHeads = s.Heads
	}
	if c.null("sliding_window") {
		s.SlidingWindow = 0
	}
	switch cl.arch {
	case "qwen2", "qwen3", "qwen3-moe":
		c.qwenWindow(s, cl)
	case "gemma2":
		s.LogitSoftcap = !c.null("final_logit_softcapping")
		s.AttnSoftcap = !c.null("attn_logit_softcapping")
		if !c.given("layer_types") && s.L <= maxLayers {
			s.LayerTypes = alternate(s.L)
		}
	case "falcon":
		c.falcon(s)
	case "gpt2":
		s.UnscaledAttn = c.when("scale_attn_weights", "false", "unscaled_attention")
	case "opt":
		c.opt(s)
	case "bloom":
		c.bloom()
	case "t5":
		c.t5(s)
	case "bert", "roberta":
		if a := c.architectures(); len(a) > 0 && !strings.EqualFold(a[0].Value, cl.heads[0]) {
			s.Labels = 2
			for suffix, of := range map[string]string{"ForTokenClassification": "tokens", "ForQuestionAnswering": "span"} {
				if strings.HasSuffix(strings.ToLower(a[0].Value), strings.ToLower(suffix)) {
					s.LabelsOf = of
				}
			}
			c.labels(s)
			if v := c.get("classifier_dropout"); v != nil {
				c.spec["dropout.classifier"] = v
				c.value(s, fieldOf("dropout.classifier"), v)
			}
		}
	case "vit":
		c.labels(s)
	case "mixtral":
		s.MoE.FFN = s.FFN
	}
	// Gemma 2 makes the window's mask even where no layer reads it.
	if !slices.Contains(s.LayerTypes, "sliding_attention") && len(s.LayerTypes) > 0 && cl.arch != "gemma2" {
		s.LayerTypes, s.SlidingWindow = nil, 0
	}
}

// labels counts a classifier's classes: num_labels, else the names in id2label.
func (c *hfConfig) labels(s *Spec) {
	if v := c.get("num_labels"); v != nil {
		if !c.given("labels") {
			c.spec["labels"] = v
			c.value(s, fieldOf("labels"), v)
		}
	} else if v := c.get("id2label"); v != nil && v.Kind == yaml.MappingNode && len(v.Content) > 0 {
		s.Labels = len(v.Content) / 2
		c.spec["labels"] = v
	}
}

// qwenWindow: the window counts with use_sliding_window only; layers from max_window_layers (28) on slide, unless
// layer_types says otherwise. Qwen3-MoE slides in all layers.
func (c *hfConfig) qwenWindow(s *Spec, cl *class) {
	use := c.get("use_sliding_window")
	if use == nil || use.Value != "true" {
		s.SlidingWindow = 0 // null: the class raises an error for a layer that slides
		if slices.Contains(s.LayerTypes, "sliding_attention") {
			c.key("layer_types", "layer_types has sliding_attention, which needs use_sliding_window: true and sliding_window: the window in tokens")
		}
		delete(c.spec, "sliding_window")
		return
	}
	if !c.given("sliding_window") && !c.null("sliding_window") {
		s.SlidingWindow = 4096
	}
	if cl.arch == "qwen3-moe" || c.given("layer_types") || s.SlidingWindow == 0 || s.L > maxLayers {
		return
	}
	from := 28
	if v := c.get("max_window_layers"); v != nil {
		if n, err := strconv.Atoi(v.Value); err == nil && n >= 0 {
			from = n
		} else {
			c.at(v, "max_window_layers: %s, but it is a whole number of at least 0", shown(v))
		}
	}
	s.LayerTypes = make([]string, max(s.L, 0))
	for i := range s.LayerTypes {
		s.LayerTypes[i] = map[bool]string{true: "sliding_attention", false: "full_attention"}[i >= from]
	}
}

// falcon: the 7B block has one key/value head with multi_query, else one a query head; num_kv_heads counts in the new
// decoder architecture only. Positions are rotary unless alibi is set.
func (c *hfConfig) falcon(s *Spec) {
	if v := c.get("alibi"); v != nil && v.Value == "true" {
		s.Positions = "alibi"
		c.spec["positions"] = v
	}
	if v := c.get("num_ln_in_parallel_attn"); v != nil {
		switch {
		case sameScalar(v, "1") && s.NewDecoder:
			s.SharedNorm = true
			c.spec["shared_norm"] = v
		case sameScalar(v, "1") || sameScalar(v, "2") && s.NewDecoder:
		case s.NewDecoder:
			c.at(v, "falcon with num_ln_in_parallel_attn: %s is not modelled: only 1 and 2 are", shown(v))
		default:
			c.at(v, "falcon with num_ln_in_parallel_attn: %s is not modelled: without new_decoder_architecture only 1 is", shown(v))
		}
	}
	if s.NewDecoder {
		s.KVHeads = s.Heads
		if v := c.get("num_kv_heads"); v != nil {
			c.spec["kv_heads"] = v
			c.value(s, fieldOf("kv_heads"), v)
		}
		return
	}
	s.KVHeads = 1
	if v := c.get("multi_query"); v != nil && v.Value == "false" {
		if s.Heads == 1 { // kv_heads 1 means multi_query, which takes keys and values out of the projection by copies
			c.at(v, "falcon with multi_query: false is not modelled for one attention head")
		}
		s.KVHeads = s.Heads
		c.spec["kv_heads"] = v
		if n := c.get("num_kv_heads"); n != nil && !sameScalar(n, strconv.Itoa(s.Heads)) {
			c.at(n, "falcon with multi_query: false and num_kv_heads: %s is no model: without new_decoder_architecture the class splits its projection into %d heads", shown(n), s.Heads)
		}
	}
}

// bloom: products in slices are those of a checkpoint that was trained in several parts.
func (c *hfConfig) bloom() {
	parts := c.get("pretraining_tp")
	if v := c.get("slow_but_exact"); v != nil && v.Value == "true" && parts != nil && !sameScalar(parts, "1") {
		c.at(v, "bloom with slow_but_exact: true and pretraining_tp: %s is not modelled: only false is", shown(parts))
	}
}

// opt: the norms of the 350m follow the sublayers, and none follows the last layer.
func (c *hfConfig) opt(s *Spec) {
	if c.when("do_layer_norm_before", "false", "norm_order") {
		s.NormOrder, s.FinalNorm = "post", false
	}
	if c.when("_remove_final_layer_norm", "true", "final_norm") {
		s.FinalNorm = false
	}
	s.PlainNorm = c.when("layer_norm_elementwise_affine", "false", "plain_norm")
}

// t5 splits feed_forward_proj ("relu", "gated-gelu"), whose gated-gelu means gelu_new; is_gated_act and dense_act_fn, which
// follow from it, win where a config has them. tie_word_embeddings says whether the decoder's output is scaled.
func (c *hfConfig) t5(s *Spec) {
	switch v := c.get("num_layers"); { // num_hidden_layers, which is set later, leaves the decoder alone
	case v == nil || c.given("decoder_L"):
	case v == c.spec["L"]:
		s.DecoderL = s.L
	default:
		c.value(s, fieldOf("decoder_L"), v)
	}
	if v := c.get("tie_word_embeddings"); v != nil && v.Value == "false" {
		s.LogitScale = false // scale_decoder_outputs; the head is tied all the same
		c.spec["logit_scale"] = v
	}
	v := c.get("feed_forward_proj")
	if v == nil {
		return
	}
	act, gated := strings.CutPrefix(v.Value, "gated-")
	if gated && !c.given("gated") {
		s.Gated = true
		c.spec["gated"] = v
	}
	if gated && act == "gelu" {
		act = "gelu_new"
	}
	if c.given("activation") {
		return
	}
	word, problem := choose(fieldOf("activation"), act)
	if problem != "" {
		c.at(v, "feed_forward_proj: %s", problem)
	}
	s.Activation = word
	c.spec["activation"] = v
}

// run sets what belongs to the run and not to the model: S, B, dtype, attention.
func (c *hfConfig) run(s *Spec) {
	s.B = 1
	s.S = 2048
	switch {
	case s.Image != nil && s.Image.Patch > 0:
		side := s.Image.Size / s.Image.Patch
		s.S = side*side + 1
	case s.MaxS > 0:
		s.S = min(s.S, max(1, s.MaxS-positionOffset(s.Arch)))
	case s.Arch == "t5":
		s.S = 512
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
