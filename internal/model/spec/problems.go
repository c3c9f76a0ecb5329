package spec

import (
	"fmt"
	"slices"
)

// WindowProblems are contradictions of the sliding window and layer types.
func (s *Spec) WindowProblems() (ps []Problem) {
	if s.SlidingWindow < 0 {
		ps = append(ps, Problem{"sliding_window", fmt.Sprintf("sliding_window %d: it is a window in tokens, or 0 for none", s.SlidingWindow)})
	}
	if n := len(s.LayerTypes); n > 0 && n != s.L {
		ps = append(ps, Problem{"layer_types", fmt.Sprintf("layer_types has %d entries for L %d layers", n, s.L)})
	}
	if slices.Contains(s.LayerTypes, "sliding_attention") && s.SlidingWindow == 0 {
		ps = append(ps, Problem{"layer_types", "layer_types has sliding_attention, which needs sliding_window: the window in tokens"})
	}
	return ps
}

// MoEProblems are contradictions of the experts.
func (s *Spec) MoEProblems() (ps []Problem) {
	m := s.MoE
	if m == nil {
		return nil
	}
	if m.Experts < 1 || m.TopK < 1 {
		return []Problem{{"moe", "moe needs experts and top_k, such as {experts: 8, top_k: 2}"}}
	}
	if m.TopK > m.Experts {
		ps = append(ps, Problem{"moe.top_k", fmt.Sprintf("moe.top_k %d is more than the %d experts", m.TopK, m.Experts)})
	}
	for i, l := range m.DenseLayers {
		if l < 0 || l >= s.L || slices.Contains(m.DenseLayers[:i], l) {
			ps = append(ps, Problem{"moe.dense_layers", fmt.Sprintf("moe.dense_layers has %d: layers are 0 to %d, each once", l, s.L-1)})
			break
		}
	}
	return ps
}

// ImageProblems are contradictions of the image and its patches.
func (s *Spec) ImageProblems() (ps []Problem) {
	m := s.Image
	if m == nil {
		return nil
	}
	if m.Size < 1 || m.Patch < 1 {
		return []Problem{{"image", "image needs size and patch, such as {size: 224, patch: 16}"}}
	}
	if m.Size > maxPixels {
		return []Problem{{"image.size", fmt.Sprintf("image.size %d is above %d pixels a side", m.Size, maxPixels)}}
	}
	if m.Size%m.Patch != 0 {
		return []Problem{{"image.patch", fmt.Sprintf("image.patch %d does not divide image.size %d", m.Patch, m.Size)}}
	}
	if patches := (m.Size / m.Patch) * (m.Size / m.Patch); s.S != patches+1 {
		return []Problem{{"S", fmt.Sprintf("S %d is not the %d patches of a %d×%d image plus 1 (the class token): write S: %d", s.S, patches, m.Size, m.Size, patches+1)}}
	}
	return nil
}

// ParallelProblems are degrees that are not modelled.
func (s *Spec) ParallelProblems() (ps []Problem) {
	p := s.Parallel
	for _, d := range []struct {
		name string
		n    int
	}{{"dp", p.DP}, {"tp", p.TP}, {"cp", p.CP}, {"pp", p.PP}, {"ep", p.EP}} {
		if d.n != 1 {
			ps = append(ps, Problem{"parallel." + d.name, fmt.Sprintf("parallel.%s: %d is not modelled yet: only 1 is", d.name, d.n)})
		}
	}
	if p.Zero != 0 {
		ps = append(ps, Problem{"parallel.zero", fmt.Sprintf("parallel.zero: %d is not modelled yet: only 0 is", p.Zero)})
	}
	if p.SP {
		ps = append(ps, Problem{"parallel.sp", "parallel.sp: true is not modelled yet: only false is"})
	}
	return ps
}

// Doubts are the warnings of a usable spec.
func (s *Spec) Doubts() []string {
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

// Problem is one contradiction in a spec, at the key to change.
type Problem struct{ Key, Text string }
