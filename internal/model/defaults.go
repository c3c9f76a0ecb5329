package model

import (
	"fmt"
	"strings"

	"ckptplan/internal/model/class"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/optimizer"
)

// fill gives every key that the document left out the default of its arch. Sizes that a YAML spec leaves out follow
// the sizes that it gives; a config.json's own class defaults are in place already (LoadHF), which given tells.
func fill(s *spec.Spec, given func(string) bool) {
	if s.Arch == "" {
		s.Arch = "gpt2"
	}
	c := class.Of(s.Arch)
	if c == nil {
		return
	}
	base := &c.Spec
	if base.MoE != nil {
		spec.OpenSection(s, "moe")
	}
	if base.Image != nil {
		spec.OpenSection(s, "image")
	}
	for i := range spec.Fields {
		f := &spec.Fields[i]
		if !given(f.Key) && !sized(f.Key) && spec.HasSection(s, f) && spec.HasSection(base, f) {
			spec.CopyValue(f.Ptr(s), f.Ptr(base))
		}
	}
	if !given("arch") {
		s.Arch = c.Arch
	}
	if s.Heads > 0 {
		fillSizes(s, c, given)
	}
	fillTraining(s, c, given)
}

// sized is true for the keys whose default depends on other keys: fillSizes and fillTraining have the rules.
func sized(key string) bool {
	switch key {
	case "name", "arch", "L", "S", "H", "B", "heads", "dtype", "kv_heads", "head_dim", "ffn", "max_positions", "decoder_L", "decoder_S",
		"attention", "checkpoint", "layer_types", "rotary_layers", "embedding_dim", "final_norm", "dropout.classifier":
		return true
	}
	return strings.HasPrefix(key, "train.") || strings.HasPrefix(key, "parallel.")
}

func fillSizes(s *spec.Spec, c *class.Class, given func(string) bool) {
	absent := func(key string) bool { return !given(key) }
	if absent("kv_heads") {
		s.KVHeads = s.Heads
	}
	if absent("head_dim") {
		if s.HeadDim = c.Spec.HeadDim; s.HeadDim == 0 {
			s.HeadDim = s.H / s.Heads
		}
	}
	if absent("ffn") {
		s.FFN = ffnDefault(c, s.H)
	}
	if absent("max_positions") && s.Positions == "learned" && s.Image == nil {
		s.MaxS = max(c.Spec.MaxS, s.S+c.Offset)
	}
	if c.Spec.DecoderL > 0 {
		if absent("decoder_L") {
			s.DecoderL = s.L
		}
		if absent("decoder_S") {
			s.DecoderS = s.S
		}
	}
	if c.Defaults != nil {
		c.Defaults(s, given)
	}
	if absent("final_norm") {
		s.FinalNorm = c.Spec.FinalNorm && s.NormOrder == "pre"
	}
	if s.EmbedDim == s.H {
		s.EmbedDim = 0 // no projection
	}
	if s.MoE != nil {
		if s.MoE.FFN == 0 && absent("moe.ffn") {
			s.MoE.FFN = s.FFN
		}
		if s.MoE.SparseStep == 0 && absent("moe.sparse_step") {
			s.MoE.SparseStep = 1
		}
	}
	if s.Image != nil && s.Image.Channels == 0 && absent("image.channels") {
		s.Image.Channels = 3
	}
}

// ffnDefault is the width of the MLP for a hidden size: 4H, Llama's 8H/3 rounded up to 256, or the ratio of the
// class's own default sizes.
func ffnDefault(c *class.Class, hidden int) int {
	switch {
	case c.Spec.FFN == 0:
		return 4 * hidden
	case c.Spec.H == 0:
		return c.Spec.FFN // torch-encoder: dim_feedforward 2048 whatever d_model
	case c.Wide:
		return (8*hidden/3 + 255) / 256 * 256
	}
	return max(1, hidden*c.Spec.FFN/c.Spec.H)
}

func fillTraining(s *spec.Spec, c *class.Class, given func(string) bool) {
	word := func(key string, p *string, v string) {
		if !given(key) {
			*p = v
		}
	}
	attention := "sdpa"
	if c.Eager {
		attention = "eager"
	}
	word("attention", &s.Attention, attention)
	word("checkpoint", &s.Checkpoint, "none")
	word("train.optimizer", &s.Train.Optimizer, optimizer.Rows[0].Name)
	if !given("train.keep_logits") {
		s.Train.KeepLogits = true
	}
	if !given("train.grad_accum") {
		s.Train.GradAccum = 1
	}
	if !given("train.loss_chunks") {
		s.Train.LossChunks = 1
	}
	finetune := "full"
	if l := s.Train.LoRA; l != nil {
		finetune = "lora"
		if !given("train.lora.alpha") {
			l.Alpha = float64(2 * l.Rank)
		}
		word("train.lora.dtype", &l.DType, "fp32")
		if !given("train.lora.targets") {
			l.Targets = c.Targets
		}
		l.Targets = expandTargets(s, l.Targets)
	}
	word("train.finetune", &s.Train.Finetune, finetune)
	for _, degree := range []struct {
		key string
		p   *int
	}{{"dp", &s.Parallel.DP}, {"tp", &s.Parallel.TP}, {"cp", &s.Parallel.CP}, {"pp", &s.Parallel.PP}, {"ep", &s.Parallel.EP}} {
		if !given("parallel." + degree.key) {
			*degree.p = 1
		}
	}
}

// defaultsInWords names every value that the document left out and that says something: not what is absent (no
// experts, no bias), nor what is part of a class that the document names, nor what is modelled with one value only
// (parallel degrees).
func defaultsInWords(s *spec.Spec, given func(string) bool) []string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	c := class.Of(s.Arch)
	structural := func(key string) bool { return c != nil && given("arch") && !c.Honours(key) }
	for i := range spec.Fields {
		f := &spec.Fields[i]
		if given(f.Key) || !spec.HasSection(s, f) || structural(f.Key) || strings.HasPrefix(f.Key, "parallel.") {
			continue
		}
		p := f.Ptr(s)
		switch f.Key {
		case "train.grad_accum":
			if s.Train.GradAccum == 1 {
				continue
			}
		case "train.loss_chunks":
			if s.Train.LossChunks == 1 {
				continue
			}
		case "name", "checkpoint", "train.finetune", "final_norm", "bias.qkv", "bias.out", "bias.mlp", "bias.head", "bias.norm", "dropout.attention", "dropout.residual", "dropout.mlp", "dropout.classifier":
			continue
		case "ffn":
			if s.FFN == 4*s.H {
				add("ffn %d (4H)", s.FFN)
				continue
			}
		case "kv_heads":
			if s.KVHeads == s.Heads {
				add("kv_heads %d (one a query head)", s.KVHeads)
				continue
			}
		case "head_dim":
			if s.HeadDim*s.Heads == s.H {
				add("head_dim %d (H/heads)", s.HeadDim)
				continue
			}
		case "positions":
			add("%s positions", s.Positions)
			continue
		case "train.optimizer":
			add("optimizer %s", s.Train.Optimizer)
			continue
		case "train.keep_logits":
			add("logits kept during backward")
			continue
		case "layer_types":
			switch slide := count(s.LayerTypes, "sliding_attention"); {
			case slide == 0:
			case slide == (s.L+1)/2:
				add("sliding and full attention alternate")
			default:
				add("%d of %d layers slide", slide, s.L)
			}
			continue
		case "dropout.embedding":
			words = append(words, dropoutsInWords(s, given)...)
			continue
		}
		switch v := p.(type) {
		case *bool:
			if *v {
				add("%s", f.Key)
			}
		case *int:
			if *v != 0 {
				add("%s %d", f.Key, *v)
			}
		case *float64:
			if *v != 0 && *v != 1 {
				add("%s %s", f.Key, spec.PrintValue(p))
			}
		case *string, *dtype.Precision:
			if text := spec.PrintValue(p); text != "" {
				add("%s %s", f.Key, text)
			}
		case *[]string:
			if len(*v) > 0 {
				add("%s %s", f.Key, spec.PrintValue(p))
			}
		}
	}
	if places := biasInWords(s, func(key string) bool { return given(key) || structural(key) }); places != "" {
		add("bias in %s", places)
	}
	return words
}

// dropoutsInWords is "dropout 0.1" if all places left out share it, else one entry a place.
func dropoutsInWords(s *spec.Spec, given func(string) bool) []string {
	places := []struct {
		name string
		p    float64
	}{{"embedding", s.Dropout.Embedding}, {"attention", s.Dropout.Attention}, {"residual", s.Dropout.Residual}, {"mlp", s.Dropout.MLP}}
	var words []string
	same := true
	for i, d := range places {
		same = same && !given("dropout."+d.name) && (d.p == places[0].p || i == 3)
		if d.p != 0 && !given("dropout."+d.name) {
			words = append(words, fmt.Sprintf("dropout.%s %g", d.name, d.p))
		}
	}
	if same && places[0].p != 0 {
		return []string{fmt.Sprintf("dropout %g", places[0].p)}
	}
	if len(words) == 0 && same {
		return []string{"dropout 0"}
	}
	return words
}

func biasInWords(s *spec.Spec, given func(string) bool) string {
	var in []string
	for _, b := range []struct {
		name string
		on   bool
	}{{"qkv", s.Bias.QKV}, {"out", s.Bias.Out}, {"mlp", s.Bias.MLP}, {"head", s.Bias.Head}, {"norm", s.Bias.Norm}} {
		if b.on && !given("bias."+b.name) {
			in = append(in, b.name)
		}
	}
	return strings.Join(in, ", ")
}

func count(words []string, word string) (n int) {
	for _, w := range words {
		if w == word {
			n++
		}
	}
	return n
}
