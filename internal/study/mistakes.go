package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// manyInputs is the share of the peak, as 1/n, above which the inputs of checkpoints are worth a remark.
const manyInputs = 3

// mistakes are sentences about settings that often surprise users, where they apply.
func (e *Estimation) mistakes() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if total := e.study.Sheet.TotalBytes; e.BudgetBytes > total { // else no sheet but this one is read
		top := largestCard()
		switch {
		case !e.GPU.Assumed:
			say("PyTorch sees %s on one %s, less than the budget of %s", total.Both(), e.GPU.Name, e.BudgetBytes.Both())
		case e.BudgetBytes > top.TotalBytes:
			say("the budget of %s is more than any card has (%s: %s): is it the memory of several?", e.BudgetBytes.Both(), top.Name, top.TotalBytes.Both())
		}
	}
	out = append(out, e.study.cardMistakes()...)
	chosen := e.best()
	if logitsRule(chosen.Owners()) {
		n := chosen.Owners().By(memory.LogitsLoss)
		say("logits and loss hold %s (%s) of the peak with %s: no checkpoint plan removes them, a fused or chunked loss does",
			n.Both(), unit.Percent(Share(n, unit.Bytes(chosen.Timeline.Peak.Bytes))), chosen.Name)
	}
	if n, peak := chosen.Owners().By(memory.RegionInputs), unit.Bytes(chosen.Timeline.Peak.Bytes); n*manyInputs > peak {
		say("the inputs of %d checkpoints hold %s (%s) of the peak with %s: checkpoints over several layers (segments-K, sqrt) keep fewer",
			checkpoints(chosen.Plan.Nodes), n.Both(), unit.Percent(Share(n, peak)), chosen.Name)
	}
	if e.study.Spec.Train.LoRA != nil {
		if len(chosen.Plan.Nodes) > 0 {
			say("frozen inputs and a reentrant checkpoint give no gradients: use_reentrant=False, or enable_input_require_grads()")
		}
		say("LoRA saves gradients and optimizer state, not activations: %s of them are kept with %s", held(chosen).Both(), chosen.Name)
	}
	return out
}

// strategyMistakes are those about a strategy's effect on this model, compared with no checkpointing.
func (e *Estimation) strategyMistakes() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	var none *Simulation
	var useless []string
	for i := range e.Estimates {
		if p := e.Estimates[i].Simulation; len(p.Plan.Nodes) == 0 {
			none = p
		}
	}
	for i := range e.Estimates {
		p := e.Estimates[i].Simulation
		if n := oneGroup(p.Plan, p.Timeline.Graph().Layers); n > 0 {
			say("%s recomputes %d layers as one group, whose activations are all alive at once: smaller groups have lower peaks", p.Name, n)
		}
		if none == nil || p == none {
			continue
		}
		was, is := unit.Bytes(none.Timeline.Peak.Bytes), unit.Bytes(p.Timeline.Peak.Bytes)
		saved := Share(was-is, was)
		switch {
		case is >= was:
			useless = append(useless, p.Name)
		case p.Plan.Strategy == "selective" && saved < 10 && fused(e.study.Spec.Attention):
			say("selective saves %s: %s attention keeps no S×S scores that it could drop", unit.Percent(saved), e.study.Spec.Attention)
		case p.Plan.Strategy == "full" && saved < 5:
			say("checkpointing every layer saves %s: activations are not what fills the memory here", unit.Percent(saved))
		}
	}
	if len(useless) > 0 {
		verb := "do"
		if len(useless) == 1 {
			verb = "does"
		}
		say("the peak is in the %s: %s %s not lower it", where(none.Timeline), strings.Join(useless, ", "), verb)
	}
	return out
}

// fused is true for attention kernels that hold no matrix of scores.
func fused(attention string) bool {
	return attention == "sdpa" || strings.HasPrefix(attention, "flash")
}

// oneGroup is the number of layers of a region that covers more than half of them, without a checkpoint inside.
func oneGroup(p *plan.Plan, layers int) int {
	for _, n := range p.Nodes {
		if size := n.Last - n.First + 1; n.Segment && len(n.Inner) == 0 && size > 2 && 2*size > layers {
			return size
		}
	}
	return 0
}

// checkpoints is the number of regions that keep their inputs from forward to backward.
func checkpoints(nodes []plan.Node) int {
	count := 0
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Segment:
			count++
		case n.Option != nil:
			count += len(n.Option.Regions) * (n.Last - n.First + 1)
		}
	}
	return count
}

// held is the bytes of activations at a peak.
func held(p *Simulation) unit.Bytes {
	return p.Owners().By(memory.Saved) + p.Owners().By(memory.RegionInputs) + p.Owners().By(memory.Recomputed) + p.Owners().By(memory.ActGradients)
}

// Share is part of whole in per cent.
func Share(part, whole unit.Bytes) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// largestCard is the card with the most memory.
func largestCard() *gpu.Sheet {
	return slices.MaxFunc(gpu.Sheets(), func(a, b *gpu.Sheet) int { return cmp.Compare(a.TotalBytes, b.TotalBytes) })
}
