// Package certificate checks what a plan file claims about its plan. It shares no code with the solvers: it simulates
// every option of the menu again, replays the plan, adds the bound up and repeats the search by another
// recurrence. A claim that holds here rests on the simulator and on this package alone.
package certificate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
)

// Limits of a check.
const (
	maxLabels  = 4_000_000 // of the repeated search
	mixes      = 12        // mixed plans that are simulated to test the rows
	mismatches = 5         // wrong numbers of the menu that are listed
)

// Check verifies the certificate of a plan file for a model on a card. The report says claim by claim what was found;
// Report.Err is not nil if one is wrong. An error means that no claim could be checked: ErrNoCertificate, a
// *plan.MismatchError for another model, or a plan that cannot be lowered.
//
// Check takes "no plan of the class is faster" to mean: no choice from the menu in the file, or no nested plan over its
// options, by the rows that this package derives. Whether the menu lists every worthwhile way to treat a layer is neither
// claimed nor checked. A nested plan whose simulated peak is lower than its peak by the rows could still be faster; the
// report says how far rows and simulations differ.
func Check(ctx context.Context, spec *spec.Spec, f *plan.File, sheet *gpu.Sheet) (*Report, error) {
	if f.Certificate == nil {
		return nil, ErrNoCertificate
	}
	if err := f.Match(spec); err != nil {
		return nil, err
	}
	programs := memory.NewPrograms(spec, false)
	p, err := programs.Kind(f.Plan.Kind())
	if err != nil {
		return nil, err
	}
	c := &checker{Report: &Report{}, c: f.Certificate, f: f, p: p}
	c.card(sheet)
	c.budget()
	if err := c.replay(); err != nil {
		return nil, err
	}
	if c.c.Closed.How == "nothing-added" {
		return c.Report, c.untreated(programs)
	}
	if c.c.Class == "nested" && c.c.Chain != nil {
		if err := c.chained(ctx); err != nil {
			return nil, err
		}
		return c.Report, nil
	}
	if c.c.Class != "flat" || c.c.Menu == nil || c.c.Bound == nil {
		c.unproved("status", "no proof is given for plans of class "+c.c.Class+": the plan is replayed, but a faster one may exist")
		if c.c.Status == "optimal" {
			c.fails("status", "optimal, without a proof")
		}
		return c.Report, nil
	}
	if c.menu() {
		c.bound()
		if err := c.closed(ctx); err != nil {
			return nil, err
		}
	}
	return c.Report, nil
}

type checker struct {
	*Report
	c     *plan.Certificate
	f     *plan.File
	p     *memory.Program
	sheet *gpu.Sheet // nil: times are not checked

	extra   int64 // found, of one micro-batch
	peak    int64 // found
	chain   *chain
	options []plan.Option
	choice  []int
}

func (c *checker) fails(claim, format string, args ...any) {
	c.add(Finding{Claim: claim, Verdict: Fails, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) unproved(claim, detail string) {
	c.add(Finding{Claim: claim, Verdict: Unproved, Detail: detail})
}

// card compares the data sheet with the one used for the times.
func (c *checker) card(sheet *gpu.Sheet) {
	if sheet == nil {
		c.unproved("card", "no data sheet was given: times are not checked")
		return
	}
	p := sheet.Peaks
	is := plan.RatesFingerprint(p.FP32, p.TF32, p.BF16, p.FP16, sheet.Bandwidth, sheet.HostLink)
	if c.c.Card.Sheet != is {
		c.add(Finding{Claim: "card.sheet_fingerprint", Verdict: Fails, Claimed: c.c.Card.Sheet, Found: is, Detail: "the rates of " + sheet.Name + " differ from those that times were made with: times are not checked"})
		return
	}
	c.sheet = sheet
	c.add(Finding{Claim: "card.sheet_fingerprint", Verdict: Holds, Claimed: is, Found: is, Detail: sheet.Name})
}

func (c *checker) budget() {
	equal(c.Report, "budget_bytes", int64(c.c.Budget), int64(c.c.Reserve+c.c.TensorBudget), "reserve + tensor budget")
	if c.f.Budget != 0 && c.f.Budget != c.c.Budget {
		equal(c.Report, "budget_bytes of the file", int64(c.f.Budget), int64(c.c.Budget), "that of the certificate")
	}
}

// replay simulates the plan and checks its peak, the owners of the peak, and its time.
func (c *checker) replay() error {
	tl, err := memory.Judge(c.p, &c.f.Plan, c.sheet)
	if err != nil {
		return err
	}
	was := &c.c.Peak
	c.peak = tl.Peak.Bytes
	equal(c.Report, "peak.tensor_bytes", int64(was.Bytes), c.peak, "the plan replayed")
	if p := c.f.Predicted; p != nil {
		equal(c.Report, "predicted.peak_tensor_bytes", int64(p.Peak), c.peak, "the plan replayed")
	}
	equal(c.Report, "peak.phase", was.Phase, tl.Peak.Phase.String(), "")
	equal(c.Report, "peak.block", was.Block, tl.Block(tl.Peak), "")
	equal(c.Report, "peak.op", was.Op, tl.Peak.Aten, "")
	c.owners(tl)
	if tl.Peak.Bytes > int64(c.c.TensorBudget) {
		c.add(Finding{
			Claim: "tensor_budget_bytes", Verdict: Fails, Claimed: fmt.Sprintf("a peak of at most %d", int64(c.c.TensorBudget)), Found: fmt.Sprint(tl.Peak.Bytes),
			Detail: "the plan does not fit",
		})
	} else {
		c.add(Finding{Claim: "tensor_budget_bytes", Verdict: Holds, Detail: fmt.Sprintf("the plan fits with %d bytes to spare", int64(c.c.TensorBudget)-tl.Peak.Bytes)})
	}
	if c.sheet == nil {
		return nil
	}
	equal(c.Report, "time.step_ns", c.c.Time.Step, tl.Times.Step(), "")
	if p := c.f.Predicted; p != nil && p.GPU == c.c.Card.Name {
		equal(c.Report, "predicted.step_ns", p.StepTime, tl.Times.Step(), "")
	}
	micro := int64(c.p.Graph.Step.MicroBatches)
	c.extra = tl.Times.Extra() / micro
	equal(c.Report, "time.extra_ns", c.c.Time.Extra, c.extra, "recomputation and transfers of a micro-batch")
	return nil
}

// untreated checks the proof of a plan that treats no layer: it adds no time to its graph, and the graph of the other plans
// is no faster with nothing added.
func (c *checker) untreated(programs *memory.Programs) error {
	if len(c.f.Nodes) > 0 {
		c.fails("closed", "nothing-added, but the plan treats layers")
		return nil
	}
	equal(c.Report, "status", c.c.Status, "optimal", "a plan that adds no time")
	if c.sheet == nil {
		return nil
	}
	equal(c.Report, "time.extra_ns", c.c.Time.Extra, 0, "the plan treats no layer")
	other, err := programs.Kind("full")
	if err != nil || other == c.p {
		return err
	}
	tl, err := memory.Judge(other, &plan.Plan{}, c.sheet)
	switch {
	case err != nil:
		return err
	case tl.Times.Step() < c.c.Time.Step:
		c.fails("closed", "nothing-added, but a step of the graph that plans with checkpoints run on takes %d ns with nothing added", tl.Times.Step())
	default:
		c.add(Finding{Claim: "closed", Verdict: Holds, Detail: fmt.Sprintf("nothing-added: a step of the graph that plans with checkpoints run on takes %d ns with nothing added", tl.Times.Step())})
	}
	return nil
}

func (c *checker) owners(tl *memory.Timeline) {
	var found []plan.CertifiedOwner
	for _, o := range tl.Explain().Owners {
		found = append(found, plan.CertifiedOwner{Category: string(o.Category), What: o.What, Block: o.Block, Each: o.Each, Count: o.Count})
	}
	wrong := false
	for i, o := range c.c.Peak.Owners {
		if i >= len(found) || found[i] != o {
			is := "nothing"
			if i < len(found) {
				is = ownerText(found[i])
			}
			c.add(Finding{Claim: fmt.Sprintf("peak.owners[%d]", i), Verdict: Fails, Claimed: ownerText(o), Found: is})
			wrong = true
		}
	}
	if !wrong {
		c.add(Finding{Claim: "peak.owners", Verdict: Holds, Detail: fmt.Sprintf("the largest %d of %d", len(c.c.Peak.Owners), len(found))})
	}
}

func ownerText(o plan.CertifiedOwner) string {
	return fmt.Sprintf("%d × %d bytes of %s (%s %s)", o.Count, int64(o.Each), o.Category, o.Block, o.What)
}

// menu derives every row of the menu again, and tests the rows against simulations of mixed plans. False if the menu
// says too little for the checks that follow.
func (c *checker) menu() bool {
	layers := c.p.Graph.Layers
	was, options, holders, err := claimed(c.c, layers)
	if err != nil {
		c.fails("menu", "%v", err)
		return false
	}
	is, patterns, err := derive(c.p, options, c.sheet, holders, false)
	if err != nil {
		c.fails("menu", "%v", err)
		return false
	}
	is.budget = int64(c.c.TensorBudget)
	c.chain, c.options = is, options
	for _, e := range []struct {
		claim   string
		was, is int64
	}{
		{"menu.base_bytes", was.base, is.base},
		{"menu.floor_bytes", was.floor, is.floor},
		{"menu.forward_slack_bytes", was.slack, is.slack},
		{"menu.backward_slack_bytes", was.slackBwd, is.slackBwd},
		{"menu.head.forward_bytes", was.headFwd, is.headFwd},
		{"menu.head.backward_bytes", was.headBwd, is.headBwd},
		{"menu.head.gradient_bytes", was.headGrad, is.headGrad},
	} {
		equal(c.Report, e.claim, e.was, e.is, "")
	}
	c.rows(was, is)
	c.shared(was, is, holders, patterns)
	if c.choice, err = choiceOf(&c.f.Plan, options, layers); err != nil {
		c.fails("nodes", "%v", err)
		return true
	}
	peak, time := is.peak(c.choice)
	if !c.agrees(peak, c.peak) {
		equal(c.Report, "peak.tensor_bytes by the rows", peak, c.peak, "the rows of the plan added up, against its simulation")
	}
	if c.sheet != nil {
		equal(c.Report, "time.extra_ns by the rows", time, c.extra, "the rows of the plan added up, against its simulation")
	}
	c.mixes()
	return true
}

// agrees is true if the rows' peak is the simulated one, or above it by no more than the rows' slack.
func (c *checker) agrees(rows, simulated int64) bool {
	return rows >= simulated && rows <= simulated+max(c.chain.slack, c.chain.slackBwd)
}

// rows compares the costs of all options at all layers.
func (c *checker) rows(was, is *chain) {
	wrong, numbers := 0, 0
	compare := func(claim string, a, b int64) {
		if numbers++; a == b {
			return
		}
		if wrong++; wrong <= mismatches {
			equal(c.Report, claim, a, b, "simulated again")
		}
	}
	for i := range is.menu {
		compare(fmt.Sprintf("menu.gradients of layer %d", i), was.grads[i], is.grads[i])
		for k := range is.menu[i] {
			a, b := &was.menu[i][k], &is.menu[i][k]
			at := fmt.Sprintf(" of option %s at layer %d", c.options[k].Name, i)
			compare("menu save_bytes"+at, a.save, b.save)
			compare("menu save_forward_bytes"+at, a.saveFwd, b.saveFwd)
			compare("menu forward_bytes"+at, a.fwd, b.fwd)
			compare("menu backward_bytes"+at, a.bwd, b.bwd)
			if c.sheet != nil {
				compare("menu time_ns"+at, a.time, b.time)
			} else {
				b.time = a.time
			}
		}
	}
	if wrong > mismatches {
		c.fails("menu", "%d more numbers are wrong", wrong-mismatches)
	}
	if wrong == 0 {
		c.add(Finding{Claim: "menu.options", Verdict: Holds, Detail: fmt.Sprintf("%d numbers of %d options at %d layers, by %d simulations", numbers, len(c.options), len(is.menu), len(c.options))})
	}
}

// shared compares who holds shared tensors, and their sizes.
func (c *checker) shared(was, is *chain, holders, patterns [][][]bool) {
	same := func(a, b [][]bool) bool { return slices.EqualFunc(a, b, slices.Equal[[]bool]) }
	for u, h := range holders {
		found := int64(0)
		if v := slices.IndexFunc(patterns, func(p [][]bool) bool { return same(p, h) }); v >= 0 {
			found = is.shared[v]
		}
		equal(c.Report, fmt.Sprintf("menu.shared[%d].bytes", u), was.shared[u], found, "tensors with these holders")
	}
	for v, p := range patterns {
		if !slices.ContainsFunc(holders, func(h [][]bool) bool { return same(p, h) }) {
			c.fails("menu.shared", "%d bytes that some options hold at some layers are not listed", is.shared[v])
		}
	}
}

// mixes simulates plans that mix the menu's options, always the same ones, and compares their peaks with the rows'.
func (c *checker) mixes() {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range mixes {
		choice := make([]int, len(c.choice))
		for i := range choice {
			if i > 0 && n%2 == 0 && rng.IntN(4) > 0 {
				choice[i] = choice[i-1]
			} else {
				choice[i] = rng.IntN(len(c.options))
			}
		}
		tl, err := memory.Judge(c.p, mixed(c.options, choice), nil)
		if err != nil {
			c.fails("menu", "a mixed plan: %v", err)
			return
		}
		if peak, _ := c.chain.peak(choice); !c.agrees(peak, tl.Peak.Bytes) {
			c.add(Finding{Claim: "menu", Verdict: Fails, Claimed: fmt.Sprint(peak), Found: fmt.Sprint(tl.Peak.Bytes), Detail: fmt.Sprintf("peak of the mixed plan %v, by the rows and simulated", choice)})
			return
		}
	}
	c.add(Finding{Claim: "menu", Verdict: Holds, Detail: fmt.Sprintf("the rows give the simulated peaks of %d mixed plans", mixes)})
}

// bound adds the dual bound up again from the derived rows, and the gap.
func (c *checker) bound() {
	b, err := c.chain.relaxed().bound(c.c.Bound.Rows)
	if err != nil {
		c.fails("dual.rows", "%v", err)
		return
	}
	equal(c.Report, "dual.bound_ns", c.c.Bound.Bound, b, "added up again")
	equal(c.Report, "dual.gap_ns", c.c.Bound.Gap, c.c.Time.Extra-b, "extra time − bound")
	if b > c.c.Time.Extra {
		c.fails("dual.bound_ns", "a bound of %d is above the time of the plan itself, %d", b, c.c.Time.Extra)
	}
	if c.c.Closed.How == "dual-tight" {
		equal(c.Report, "closed", c.c.Time.Extra, b, "dual-tight: the bound is the plan's time")
	}
}

// closed repeats the search, unless the bound has closed the gap.
func (c *checker) closed(ctx context.Context) error {
	how := c.c.Closed.How
	if c.c.Status == "optimal" && how == "stopped" {
		c.fails("status", "optimal, but the search was stopped")
	}
	switch how {
	case "none":
		c.fails("closed", "no proof closes the gap, and the search was not stopped")
		return nil
	case "dual-tight":
		return nil // the bound is the proof
	}
	out, err := search(ctx, c.chain.relaxed(), c.c.Time.Extra, maxLabels)
	switch {
	case err != nil:
		return err
	case how == "stopped" && out.complete && !out.found:
		c.add(Finding{Claim: "closed", Verdict: Holds, Detail: fmt.Sprintf("stopped, but a search with %d labels finds no faster plan of the class", out.labels)})
	case how == "stopped" && out.found:
		c.unproved("closed", fmt.Sprintf("the search was stopped: a plan of the class fits and takes %d ns", out.time))
	case how == "stopped":
		c.unproved("closed", "the search was stopped: a faster plan may exist, none below the bound")
	case out.found:
		c.add(Finding{
			Claim: "closed", Verdict: Fails, Claimed: fmt.Sprintf("no plan of the class takes less than %d ns", c.c.Time.Extra),
			Found: fmt.Sprintf("one that fits and takes %d ns", out.time),
		})
	case !out.complete:
		c.unproved("closed", fmt.Sprintf("exact-search: not repeated, it needs more than %d labels or tells more than %d shared tensors apart", int64(maxLabels), maxShared))
	default:
		c.add(Finding{Claim: "closed", Verdict: Holds, Detail: fmt.Sprintf("exact-search, repeated with %d labels: no faster plan of the class fits", out.labels)})
	}
	return nil
}
