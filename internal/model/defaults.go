package model

import (
	"fmt"
	"strings"

	"ckptplan/internal/optimizer"
)

// fill gives every key that the document left out the default of its arch. Sizes that a YAML spec leaves out follow
// the sizes that it gives; a config.json's own class defaults are in place already (LoadHF), which given tells.
func fill(s *Spec, given func(string) bool) {
	if s.Arch == "" {
		s.Arch = "gpt2"
	}
	c := classOf(s.Arch)
	if c == nil {
		return
	}
	base := &c.spec
	if base.MoE != nil {
		openSection(s, "moe")
	}
	if base.Image != nil {
		openSection(s, "image")
	}
	for i := range fields {
		f := &fields[i]
		if !given(f.key) && !sized(f.key) && hasSection(s, f) && hasSection(base, f) {
			copyValue(f.ptr(s), f.ptr(base))
		}
	}
	if !given("arch") {
		s.Arch = c.arch
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
		"attention", "checkpoint", "layer_types", "embedding_dim", "final_norm", "dropout.classifier":
		return true
	}
	return strings.HasPrefix(key, "train.") || strings.HasPrefix(key, "parallel.")
}

func fillSizes(s *Spec, c *class, given func(string) bool) {
	absent := func(key string) bool { return !given(key) }
	if absent("kv_heads") {
		s.KVHeads = s.Heads
	}
	if absent("head_dim") {
		if s.HeadDim = c.spec.HeadDim; s.HeadDim == 0 {
			s.HeadDim = s.H / s.Heads
		}
	}
	if absent("ffn") {
		s.FFN = ffnDefault(c, s.H)
	}
	if absent("max_positions") && s.Positions == "learned" && s.Image == nil {
		s.MaxS = max(c.spec.MaxS, s.S+c.offset)
	}
	if c.spec.DecoderL > 0 {
		if absent("decoder_L") {
			s.DecoderL = s.L
		}
		if absent("decoder_S") {
			s.DecoderS = s.S
		}
	}
	if c.defaults != nil {
		c.defaults(s, given)
	}
	if absent("final_norm") {
		s.FinalNorm = c.spec.FinalNorm && s.NormOrder == "pre"
	}
	if absent("dropout.classifier") && c.honours("dropout.classifier") && s.Labels > 0 {
		s.Dropout.Classifier = s.Dropout.Residual
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
func ffnDefault(c *class, hidden int) int {
	switch {
	case c.spec.FFN == 0:
		return 4 * hidden
	case c.spec.H == 0:
		return c.spec.FFN // torch-encoder: dim_feedforward 2048 whatever d_model
	case c.wide:
		return (8*hidden/3 + 255) / 256 * 256
	}
	return max(1, hidden*c.spec.FFN/c.spec.H)
}

func fillTraining(s *Spec, c *class, given func(string) bool) {
	word := func(key string, p *string, v string) {
		if !given(key) {
			*p = v
		}
	}
	attention := "sdpa"
	if c.eager {
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
			l.Targets = c.targets
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
func defaultsInWords(s *Spec, given func(string) bool) []string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	c := classOf(s.Arch)
	structural := func(key string) bool { return c != nil && given("arch") && !c.honours(key) }
	for i := range fields {
		f := &fields[i]
		if given(f.key) || !hasSection(s, f) || structural(f.key) || strings.HasPrefix(f.key, "parallel.") {
			continue
		}
		p := f.ptr(s)
		switch f.key {
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
			if len(s.LayerTypes) > 0 {
				add("sliding and full attention alternate")
			}
			continue
		case "dropout.embedding":
			words = append(words, dropoutsInWords(s, given)...)
			continue
		}
		switch v := p.(type) {
		case *bool:
			if *v {
				add("%s", f.key)
			}
		case *int:
			if *v != 0 {
				add("%s %d", f.key, *v)
			}
		case *float64:
			if *v != 0 && *v != 1 {
				add("%s %s", f.key, printValue(p))
			}
		case *string, *Precision:
			if text := printValue(p); text != "" {
				add("%s %s", f.key, text)
			}
		case *[]string:
			if len(*v) > 0 {
				add("%s %s", f.key, printValue(p))
			}
		}
	}
	if places := biasInWords(s, func(key string) bool { return given(key) || structural(key) }); places != "" {
		add("bias in %s", places)
	}
	return words
}

// dropoutsInWords is "dropout 0.1" if all places left out share it, else one entry a place.
func dropoutsInWords(s *Spec, given func(string) bool) []string {
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

func biasInWords(s *Spec, given func(string) bool) string {
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
