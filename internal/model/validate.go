package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckptplan/internal/nearest"
)

// maxLayers bounds what a spec may ask for; the deepest published transformers have 1000 layers.
const maxLayers = 100_000

// maxPixels bounds the side of an image.
const maxPixels = 1 << 16

// maxBytes is where an estimate is taken for a unit slip: 1 PB.
const maxBytes = 1e15

const (
	// maxOpFLOPs bounds the work of one op, of whose backward attention takes 5/2 in whole numbers: 5·1.8·10¹⁸ < 2⁶³.
	maxOpFLOPs = 1.8e18
	// maxFLOPs and maxMoved bound a step of all its micro batches; the slowest card of a data sheet would need decades.
	maxFLOPs = 1e21
	maxMoved = 1e18
	// maxAccum bounds the micro batches of a step, each of which takes some time.
	maxAccum = 1_000_000_000
)

// problem is one contradiction in a spec, at the key to change.
type problem struct{ key, text string }

// problems are the contradictions among the values of a filled spec.
func (s *Spec) problems() []problem {
	var ps []problem
	add := func(key, format string, args ...any) { ps = append(ps, problem{key, fmt.Sprintf(format, args...)}) }
	c := classOf(s.Arch)

	if n := s.Train.LossChunks; n > 1 && !s.Chunkable() {
		add("train.loss_chunks", "loss_chunks is for causal language models: arch %s computes its loss in one piece", s.Arch)
	} else if n > 1 && n > s.B*s.S {
		add("train.loss_chunks", "loss_chunks %d is more than the %d tokens of a micro batch", n, s.B*s.S)
	}
	if s.HeadDim*s.Heads != s.H && s.HeadDim == s.H/s.Heads && s.H%s.Heads != 0 && (c == nil || !c.ownHeadDim) {
		add("heads", "heads %d does not divide H %d: choose heads that do, or give head_dim", s.Heads, s.H)
	} else if s.HeadDim == 0 {
		add("heads", "heads %d is more than H %d", s.Heads, s.H)
	}
	if d := int(float64(s.HeadDim) * s.Rotary); s.Positions == "rotary" && d%2 == 1 && d == s.HeadDim {
		add("heads", "head_dim %d is odd: rotary positions turn pairs of a head's elements", d)
	}
	if s.KVHeads > 0 && s.Heads%s.KVHeads != 0 {
		add("kv_heads", "kv_heads %d does not divide heads %d", s.KVHeads, s.Heads)
	}
	if c != nil {
		if c.problems != nil {
			c.problems(s, add)
		}
		if !c.takesNorm(s.Norm) {
			add("norm", "norm %s does not suit arch %s, which takes %s", s.Norm, s.Arch, c.normWords())
		}
		if s.Activation != c.spec.Activation && slices.Contains(c.own, "activation") {
			add("activation", "activation %s does not suit arch %s, which has its own %s", s.Activation, s.Arch, c.spec.Activation)
		}
		if s.Labels == 1 && c.classifies() {
			add("labels", "labels 1: a regression's loss is not modelled: only the cross-entropy of 2 classes or more is")
		}
		if c.honours("dropout.classifier") && s.Labels == 0 && s.Dropout.Classifier > 0 {
			add("dropout.classifier", "dropout.classifier %g: only a classifier has it: give labels", s.Dropout.Classifier)
		}
	}
	if s.LabelsOf != "" && s.Labels == 0 {
		add("labels_of", "labels_of %s: only a classifier has labels: give labels", s.LabelsOf)
	}
	if s.LabelsOf == "span" && s.Labels > 0 && s.Labels != 2 {
		add("labels", "labels %d: a span has two ends: labels_of span goes with labels 2", s.Labels)
	}
	if s.L > maxLayers {
		add("L", "L %d is above %d layers", s.L, maxLayers)
	}
	if n := s.Train.GradAccum; n > maxAccum {
		add("train.grad_accum", "grad_accum %d is above %d micro batches", n, maxAccum)
	}
	if s.Positions == "learned" && s.Image == nil && s.MaxS > 0 && c != nil && s.S+c.offset > s.MaxS {
		add("S", "S %d is more than the %d learned positions (max_positions)", s.S, s.MaxS-c.offset)
	}
	ps = append(ps, s.windowProblems()...)
	ps = append(ps, s.moeProblems()...)
	ps = append(ps, s.imageProblems()...)
	ps = append(ps, s.trainProblems()...)
	ps = append(ps, s.parallelProblems()...)
	if c != nil && c.eager && s.Attention != "eager" {
		add("attention", "attention %s: the %s class of Hugging Face has eager attention only", s.Attention, s.Arch)
	}
	if s.Attention == "flash2" {
		if err := s.flash2(); err != nil {
			add("attention", "%v", err)
		}
	}
	if len(ps) == 0 {
		if key, text := s.tooLarge(); text != "" {
			add(key, "%s", text)
		}
	}
	return ps
}

func (s *Spec) windowProblems() (ps []problem) {
	if s.SlidingWindow < 0 {
		ps = append(ps, problem{"sliding_window", fmt.Sprintf("sliding_window %d: it is a window in tokens, or 0 for none", s.SlidingWindow)})
	}
	if n := len(s.LayerTypes); n > 0 && n != s.L {
		ps = append(ps, problem{"layer_types", fmt.Sprintf("layer_types has %d entries for L %d layers", n, s.L)})
	}
	if slices.Contains(s.LayerTypes, "sliding_attention") && s.SlidingWindow == 0 {
		ps = append(ps, problem{"layer_types", "layer_types has sliding_attention, which needs sliding_window: the window in tokens"})
	}
	return ps
}

func (s *Spec) moeProblems() (ps []problem) {
	m := s.MoE
	if m == nil {
		return nil
	}
	if m.Experts < 1 || m.TopK < 1 {
		return []problem{{"moe", "moe needs experts and top_k, such as {experts: 8, top_k: 2}"}}
	}
	if m.TopK > m.Experts {
		ps = append(ps, problem{"moe.top_k", fmt.Sprintf("moe.top_k %d is more than the %d experts", m.TopK, m.Experts)})
	}
	for i, l := range m.DenseLayers {
		if l < 0 || l >= s.L || slices.Contains(m.DenseLayers[:i], l) {
			ps = append(ps, problem{"moe.dense_layers", fmt.Sprintf("moe.dense_layers has %d: layers are 0 to %d, each once", l, s.L-1)})
			break
		}
	}
	return ps
}

func (s *Spec) imageProblems() (ps []problem) {
	m := s.Image
	if m == nil {
		return nil
	}
	if m.Size < 1 || m.Patch < 1 {
		return []problem{{"image", "image needs size and patch, such as {size: 224, patch: 16}"}}
	}
	if m.Size > maxPixels {
		return []problem{{"image.size", fmt.Sprintf("image.size %d is above %d pixels a side", m.Size, maxPixels)}}
	}
	if m.Size%m.Patch != 0 {
		return []problem{{"image.patch", fmt.Sprintf("image.patch %d does not divide image.size %d", m.Patch, m.Size)}}
	}
	if patches := (m.Size / m.Patch) * (m.Size / m.Patch); s.S != patches+1 {
		return []problem{{"S", fmt.Sprintf("S %d is not the %d patches of a %d×%d image plus 1 (the class token): write S: %d", s.S, patches, m.Size, m.Size, patches+1)}}
	}
	return nil
}

func (s *Spec) trainProblems() (ps []problem) {
	add := func(key, format string, args ...any) { ps = append(ps, problem{key, fmt.Sprintf(format, args...)}) }
	l := s.Train.LoRA
	switch {
	case l == nil && s.Train.Finetune == "lora":
		add("train.finetune", "finetune: lora needs train.lora, such as {r: 16}")
	case l != nil && s.Train.Finetune == "full":
		add("train.finetune", "finetune: full and train.lora contradict each other: remove one")
	}
	if l == nil {
		return ps
	}
	if l.Rank < 1 {
		add("train.lora.r", "train.lora needs r, the rank, such as {r: 16}")
	} else if l.Rank > s.H {
		add("train.lora.r", "train.lora.r %d: the rank is from 1 to H, %d", l.Rank, s.H)
	}
	known := linearNames(s)
	if len(known) == 0 {
		add("train.lora", "arch %s has no linear layers that peft names: LoRA is not modelled for it", s.Arch)
		return ps
	}
	if len(l.Targets) == 0 {
		add("train.lora.targets", "train.lora.targets is empty: known for %s are %s, all-linear", s.Arch, strings.Join(known, ", "))
	}
	for i, t := range l.Targets {
		switch {
		case slices.Contains(l.Targets[:i], t):
			add("train.lora.targets", "train.lora.targets has %s twice", t)
		case !slices.Contains(known, t):
			text := fmt.Sprintf("train.lora.targets: %q is no linear layer of %s; known are %s, all-linear", t, s.Arch, strings.Join(known, ", "))
			if n := nearest.Name(t, known); n != "" {
				text += fmt.Sprintf(" (did you mean %q?)", n)
			}
			add("train.lora.targets", "%s", text)
		}
	}
	return ps
}

func (s *Spec) parallelProblems() (ps []problem) {
	p := s.Parallel
	for _, d := range []struct {
		name string
		n    int
	}{{"dp", p.DP}, {"tp", p.TP}, {"cp", p.CP}, {"pp", p.PP}, {"ep", p.EP}} {
		if d.n != 1 {
			ps = append(ps, problem{"parallel." + d.name, fmt.Sprintf("parallel.%s: %d is not modelled yet: only 1 is", d.name, d.n)})
		}
	}
	if p.Zero != 0 {
		ps = append(ps, problem{"parallel.zero", fmt.Sprintf("parallel.zero: %d is not modelled yet: only 0 is", p.Zero)})
	}
	if p.SP {
		ps = append(ps, problem{"parallel.sp", "parallel.sp: true is not modelled yet: only false is"})
	}
	return ps
}

// TooLarge is true for a step that no estimate is made for: its size is taken for a unit slip.
func (s *Spec) TooLarge() bool {
	_, text := s.tooLarge()
	return text != ""
}

// tooLarge names the input that is furthest above what is common, if the step would need more than maxBytes, or so much
// work that its FLOPs or nanoseconds would not be whole numbers of 64 bits. The estimates are lower bounds in floating
// point: fp32 weights, gradients and Adam's two moments, one hidden-size and one ffn-size tensor a layer, the logits,
// and the scores of one eager layer; the products of every layer and the head, and attention, forward alone.
func (s *Spec) tooLarge() (key, text string) {
	f := func(n int) float64 { return float64(max(n, 0)) }
	experts, active, accum := 1.0, 1.0, math.Max(1, f(s.Train.GradAccum))
	if s.MoE != nil {
		experts, active = f(s.MoE.Experts), f(s.MoE.TopK)
	}
	layers, width := f(s.L+s.DecoderL), f(s.Heads)*f(s.HeadDim)
	weights := f(s.Vocab)*f(s.H) + f(s.MaxS)*f(s.H)*oneIf(s.Positions == "learned") +
		layers*(2*f(s.H)*f(s.HeadDim)*f(s.Heads+s.KVHeads)+2*f(s.H)*f(s.FFN)*experts)
	tokens := f(s.B) * f(s.S)
	acts := tokens * (f(s.L)*(f(s.H)+f(s.FFN)+width) + f(s.Vocab))
	acts += tokens * f(s.S) * f(s.Heads) * oneIf(s.Attention == "eager")
	attention, head, mlp := 4*tokens*f(s.S)*width, 2*tokens*f(s.H)*f(s.Vocab), 2*tokens*f(s.H)*f(s.FFN)
	step := accum * (head + layers*(attention+2*active*mlp+4*tokens*f(s.H)*width))
	switch bytes := 16*weights + 2*acts; {
	case !(bytes < maxBytes):
		text = "the step would need more than 1 PB"
	case max(attention, head, mlp) > maxOpFLOPs:
		text = "an op of the step would need more than 1.8 EFLOP"
	case step > maxFLOPs || accum*2*acts > maxMoved:
		text = "the step would take years"
	default:
		return "", ""
	}
	worst, name, value := 0.0, "", 0
	for _, in := range []struct {
		name   string
		n      int
		common float64
	}{
		{"B", s.B, 64},
		{"S", s.S, 8192},
		{"L", s.L, 64},
		{"H", s.H, 8192},
		{"heads", s.Heads, 64},
		{"ffn", s.FFN, 32768},
		{"vocab", s.Vocab, 131072},
		{"max_positions", s.MaxS, 131072},
		{"moe.experts", int(experts), 128},
		{"train.grad_accum", s.Train.GradAccum, 1024},
	} {
		if x := f(in.n) / in.common; x > worst {
			worst, name, value = x, in.name, in.n
		}
	}
	return name, fmt.Sprintf("%s: a unit slip? The largest input is %s: %d", text, name, value)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// doubts are the warnings of a usable spec.
func (s *Spec) doubts() []string {
	var ds []string
	add := func(format string, args ...any) { ds = append(ds, fmt.Sprintf(format, args...)) }
	if s.B > 256 || s.B*s.S > 1<<20 {
		add("B %d × S %d is %d tokens a forward pass on one device: if %d is the global batch, give the micro batch and grad_accum", s.B, s.S, s.B*s.S, s.B)
	}
	if s.AttnSoftcap && s.Attention != "eager" {
		add("attention %s does not apply the soft cap of the attention scores; only eager does", s.Attention)
	}
	return ds
}

// unvaried reports the keys given with a value that the arch's class cannot have.
func (r *reader) unvaried(s *Spec) {
	c := classOf(s.Arch)
	if c == nil || c.arch == "custom" {
		return
	}
	standard := &Spec{Arch: s.Arch, L: s.L, S: s.S, H: s.H, B: s.B, Heads: s.Heads, Precision: s.Precision}
	fill(standard, func(key string) bool { return key == "arch" || slices.Contains(required, key) })
	for i := range fields {
		f := &fields[i]
		if f.key == "head_dim" && s.Heads > 0 && s.H%s.Heads != 0 && !c.honours(f.key) && r.given(f.key) && !r.bad["heads"] {
			r.bad["heads"], r.bad[f.key] = true, true
			r.key("heads", "heads %d does not divide H %d, and arch %s has no other head_dim than H/heads", s.Heads, s.H, c.arch)
		}
		if !r.given(f.key) || r.bad[f.key] || c.honours(f.key) || (hasSection(standard, f) && sameValue(f.ptr(s), f.ptr(standard))) {
			continue
		}
		r.bad[f.key] = true
		if in, _, _ := strings.Cut(f.key, "."); r.spec[in] == r.spec[f.key] && in != f.key { // bias: false
			if !r.bad[in] {
				r.key(in, "%s: %s does not suit arch %s: give its places apart", in, r.spec[in].Value, c.arch)
			}
			r.bad[in] = true
			continue
		}
		v := ""
		if hasSection(standard, f) {
			v = printValue(f.ptr(standard))
		}
		if v == "" || v == "0" || v == "[]" {
			r.key(f.key, "%s: arch %s has none", f.key, c.arch)
		} else {
			r.key(f.key, "%s: arch %s has %s only", f.key, c.arch, v)
		}
	}
}

// takesNorm is true for the class's own norm, and for the common RMSNorm in one kernel.
func (c *class) takesNorm(norm string) bool {
	return c.arch == "custom" || norm == c.spec.Norm || norm == "rmsnorm-fused" && c.fusesNorm()
}

// fusesNorm is true if the class's norm is the RMSNorm that a fused kernel computes.
func (c *class) fusesNorm() bool { return c.spec.Norm == "rmsnorm" && !slices.Contains(c.own, "norm") }

// FusesNorm is true for a model with a composed RMSNorm that a fused kernel could compute.
func (s *Spec) FusesNorm() bool {
	c := classOf(s.Arch)
	return s.Norm == "rmsnorm" && c != nil && c.fusesNorm()
}

// normWords are the norms that the class takes.
func (c *class) normWords() string {
	switch {
	case c.fusesNorm():
		return "rmsnorm, composed as Hugging Face does, or rmsnorm-fused"
	case slices.Contains(c.own, "norm"):
		return "rmsnorm alone, of its own kind, for which no fused kernel is modelled"
	}
	return c.spec.Norm
}

// honours is true for a key that may differ from the class's defaults.
func (c *class) honours(key string) bool {
	switch key {
	case "name", "arch", "L", "S", "H", "B", "heads", "dtype", "attention", "checkpoint", "ffn", "activation", "norm":
		return true
	case "vocab":
		if c.spec.Vocab > 0 {
			return true
		}
	}
	if strings.HasPrefix(key, "train.") || strings.HasPrefix(key, "parallel.") || slices.Contains(c.varies, key) {
		return true
	}
	for _, k := range c.keys {
		if slices.Contains(strings.Fields(k.spec), key) {
			return true
		}
	}
	return false
}
