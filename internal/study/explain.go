package study

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/unit"
)

// maxOwners is how many groups of tensors an explanation lists.
const maxOwners = 20

// Explanation says what an estimate rests on and who holds the bytes of its peak.
type Explanation struct {
	Strategy    string        `json:"strategy"`
	Assumptions []Assumption  `json:"assumptions"`
	Alive       []Owner       `json:"alive"`
	Reserve     []ReserveItem `json:"reserve"`
	Remarks     []string      `json:"remarks"`
}

// Assumption is a setting that the user did not give.
type Assumption struct {
	Text string `json:"text"`
	// Bytes is what it adds to the peak, where that is known; Basis says how it was found.
	Bytes *unit.Bytes `json:"bytes,omitempty"`
	Basis string      `json:"basis,omitempty"`
}

// Owner is a group of equal tensors alive at the peak.
type Owner struct {
	Category  memory.Category `json:"category"`
	What      string          `json:"what"`
	Block     string          `json:"block,omitempty"` // the first block, if there are several
	EachBytes unit.Bytes      `json:"each_bytes"`
	Count     int             `json:"count"`
	Bytes     unit.Bytes      `json:"bytes"`
}

// ReserveItem is memory beside the tensors.
type ReserveItem struct {
	Name   string     `json:"name"`
	Bytes  unit.Bytes `json:"bytes"`
	Least  unit.Bytes `json:"least_bytes"`
	Level  gpu.Level  `json:"level"`
	Reason string     `json:"reason"`
	Source string     `json:"source"`
}

// explain explains the chosen estimate.
func (e *Estimation) explain() (*Explanation, error) {
	p := e.best()
	x := &Explanation{Strategy: p.Name, Remarks: e.remarks(p)}
	longer, err := e.longer(p)
	if err != nil {
		return nil, err
	}
	x.Remarks = append(x.Remarks, longer...)
	held, err := e.heldGradients(p)
	if err != nil {
		return nil, err
	}
	if held > 0 {
		x.Remarks = append(x.Remarks, gradientsFreed+held.Both())
	}
	for _, text := range e.Assumptions {
		a, err := e.contribution(p, text)
		if err != nil {
			return nil, err
		}
		x.Assumptions = append(x.Assumptions, *a)
	}
	for _, o := range p.Owners().Owners[:min(maxOwners, len(p.Owners().Owners))] {
		x.Alive = append(x.Alive, Owner{o.Category, opName(o.What), o.Block, o.Each, o.Count, o.Bytes()})
	}
	for _, it := range e.study.fit(p.Timeline.Peak.Bytes).Reserve {
		x.Reserve = append(x.Reserve, ReserveItem(it))
	}
	return x, nil
}

// contribution finds what an assumption adds to the peak: the difference to a simulation without it, or the bytes at
// the peak that exist for it alone.
func (e *Estimation) contribution(p *Simulation, text string) (*Assumption, error) {
	a := &Assumption{Text: text}
	without := func(basis string, o model.Overrides) (*Assumption, error) {
		other, err := e.study.Vary(o)
		if err != nil {
			return nil, err
		}
		return a, a.against(other, p, basis)
	}
	at := func(basis string, c memory.Category) (*Assumption, error) {
		b := p.Owners().By(c)
		a.Bytes, a.Basis = &b, basis
		return a, nil
	}
	switch word, _, _ := strings.Cut(text, " "); {
	case strings.HasPrefix(text, "logits kept"):
		return without("against --keep-logits=false", model.Overrides{KeepLogits: new(bool)})
	case word == "activation" && e.study.Spec.Activation == composed:
		return without("against the same function in one kernel, --activation gelu_tanh", model.Overrides{Activation: oneKernel})
	case word == "norm" && model.FusesNorm(e.study.Spec):
		return without("against the same norm in one kernel, --norm "+fusedNorm, model.Overrides{Norm: fusedNorm})
	case strings.HasPrefix(word, "dropout"):
		s := *e.study.Spec
		s.Dropout = spec.Dropout{}
		other, err := New(&s, e.study.Request)
		if err != nil {
			return nil, err
		}
		return a, a.against(other, p, "against dropout 0")
	case word == "optimizer":
		return at("its state", memory.OptimizerState)
	case word == "vocab":
		return at("logits and loss at the peak", memory.LogitsLoss)
	}
	return a, nil
}

// against sets Bytes to what the plan saves in another study.
func (a *Assumption) against(other *Study, p *Simulation, basis string) error {
	x, err := other.Simulate(p.Choice)
	if err != nil {
		return err
	}
	d := unit.Bytes(p.Timeline.Peak.Bytes - x.Timeline.Peak.Bytes)
	a.Bytes, a.Basis = &d, basis
	return nil
}

// remarks are sentences about how to read the numbers.
func (e *Estimation) remarks(p *Simulation) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	tl, s := p.Timeline, e.study.Spec
	states := tl.Parameters + tl.Gradients + tl.Optimizer
	say("weights, gradients and optimizer state are %s; the other %s of the peak are activations, logits and temporaries",
		states.Both(), max(0, unit.Bytes(tl.Peak.Bytes)-states).Both())
	if tl.Optimizer > 0 {
		peak := tl.FirstStep().Peak
		first := unit.Bytes(max(peak[memory.Forward].Bytes, peak[memory.Backward].Bytes, peak[memory.Optimizer].Bytes))
		if first < unit.Bytes(tl.Peak.Bytes) {
			say("the first step peaks at %s, later ones at %s, since optimizer state exists from then on", first.Both(), unit.Bytes(tl.Peak.Bytes).Both())
		}
	}
	if k := s.Train.GradAccum; k > 1 {
		say("memory follows the micro batch of %d, not the %d accumulated; gradients of %s stay between micro batches", s.B, s.B*k, tl.Gradients.Both())
	}
	if n := p.Owners().By(memory.WeightCasts); n > 0 {
		say("autocast keeps %s of 16-bit weight copies beside the fp32 weights at the peak", n.Both())
	}
	if s.Attention == "eager" || s.Attention == "math" {
		say("%s attention materialises %d×%d scores for each of %d heads: --attention sdpa does not", s.Attention, s.S, s.S, s.Heads)
	}
	if slices.ContainsFunc(p.Owners().Owners, func(o memory.Owner) bool { return o.Category == memory.Recomputed }) && tl.Second.HostPeak > 0 {
		say("the peak is in recompute, which offload does not lower")
	}
	if s.Train.LoRA != nil {
		if n := upcast(tl.Graph()); n > 0 {
			say("the frozen weights are counted as loaded: preparation for k-bit training holds embedding and head in fp32, %s more", n.Both())
		}
	}
	if len(p.Plan.Nodes) > 0 {
		say("use_cache is counted as off, as Hugging Face sets it with checkpointing")
	} else {
		say("use_cache is counted as off: a Hugging Face config has it on, set it to False for training")
	}
	say("the ops are those of %s: other releases may keep other tensors", model.Releases(s))
	say("the peak is that of eager mode: torch.compile fuses, and recomputes by its own plan; verify it with compilation on")
	say("nvidia-smi shows the tensors and the reserve: allocator rounding and the CUDA context are not tensors")
	say("GB are 10⁹ bytes, GiB 2³⁰: a card sold as %s has %s for PyTorch", e.study.Sheet.SoldAs.Decimal(), e.study.Sheet.TotalBytes.Both())
	return out
}

// longer says what a sequence of twice the length would need: data has longer samples than its nominal length, and
// packing fills it. It says nothing if the model has too few positions.
func (e *Estimation) longer(p *Simulation) ([]string, error) {
	s := e.study.Spec
	if s.Image != nil || s.Positions == "learned" && 2*s.S > s.MaxS || s.DecoderL > 0 {
		return nil, nil
	}
	length := 2 * s.S
	study, err := e.study.Vary(model.Overrides{Seq: &length})
	if err != nil {
		return nil, err
	}
	twice, err := study.Simulate(p.Choice)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("sequence length %d is that of the longest sample, or of what packing makes: one of %d peaks at %s",
		s.S, 2*s.S, unit.Bytes(twice.Timeline.Peak.Bytes).Both())}, nil
}

// upcast is what 16-bit embedding and head weights take more in fp32.
func upcast(g *graph.Graph) unit.Bytes {
	var n unit.Bytes
	for _, p := range g.Params {
		if p.Bytes == 2*p.Count && !p.Trained && slices.ContainsFunc([]string{"embed", "wte", "wpe", "lm_head"}, func(part string) bool { return strings.Contains(p.Name, part) }) {
			n += unit.Bytes(2 * p.Count)
		}
	}
	return n
}
