// Package menu says what may be done to a layer and what that costs: the options of a layer, each priced at every layer by
// simulation, and which tensors several layers keep. It states them as a problem of package solve and knows nothing of
// how a plan is searched.
package menu

import (
	"context"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
)

// Menu is the options of a model's layers with what each costs at every layer, as differences of whole-graph simulations
// in which all layers take the same option. Equal layers are priced on a short chain of them.
type Menu struct {
	Options []plan.Option
	Program *memory.Program // of the model
	Chain   *memory.Program // the priced one: the model's, or that of a few equal layers
	Sheet   *gpu.Sheet      // the card of the times
	// Same is, by layer, the layer of the chain that stands for it.
	Same []int
	// Entangled: layers hold their own output, so that costs are those of plans that treat all layers alike.
	Entangled bool
	// Untreated is the whole model with every layer kept. Embedding and head cost what they do there (Base, by block).
	Untreated *memory.Timeline
	Base      []memory.BlockProfile
	// Always is the bytes from before the layers that every option keeps, AllKept what all layers keep together if they keep
	// everything.
	Always, AllKept int64

	blocks [][]memory.BlockProfile // by option, by block of the chain
	shared []shared
	late   []dropped // what forward frees in a layer or in the head unless it is kept
}

// Price simulates the whole graph once with all layers kept, and a short chain once an option.
// Options beyond those of Options, such as Offload's, come as more; allows picks the menu from them.
func Price(ctx context.Context, p *memory.Program, sheet *gpu.Sheet, allows func(*plan.Option) bool, more ...plan.Option) (*Menu, error) {
	q, same, err := short(p)
	if err != nil {
		return nil, err
	}
	options := Options(q.Graph, q.Graph.Layers/2)
	if q == p && p.Graph.Layers > shortLayers { // every option costs a walk of the whole graph
		options = partOptions(p.Graph, p.Graph.Layers/2)
	}
	m := &Menu{Program: p, Chain: q, Sheet: sheet, Same: same}
	var synchronous []plan.Option
	for _, o := range append(options, more...) {
		if !allows(&o) {
			continue
		}
		priced := o
		if windowed(o) { // priced as if synchronous: what is under way is staging
			priced.Regions = slices.Clone(o.Regions)
			priced.Regions[0].Window = 0
		}
		if _, err := Uniform(q, priced); err != nil {
			continue // not every layer has this part
		}
		m.Options = append(m.Options, o)
		synchronous = append(synchronous, priced)
	}
	found, err := findShared(q, m.Options)
	if err != nil {
		return nil, err
	}
	m.shared, m.late, m.Always = found.shared, found.late, found.always
	for i, o := range synchronous {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, blocks, err := profileAll(q, o, sheet, found.several)
		if err != nil {
			return nil, err
		}
		if windowed(m.Options[i]) {
			overlap(blocks)
		}
		m.blocks = append(m.blocks, blocks)
	}
	if m.Untreated, m.Base, err = profileAll(p, plan.Keep, sheet, nil); err != nil {
		return nil, err
	}
	if m.Entangled, err = holdsOwnOutput(q); err != nil {
		return nil, err
	}
	for i := range p.Graph.Layers {
		m.AllKept += m.Saved(0, i) // option 0 is keep
	}
	for u := range m.shared {
		if m.shared[u].released(0) >= 0 {
			m.AllKept += m.shared[u].bytes
		}
	}
	return m, nil
}

// Uniform is the schedule of a program with the same option at every layer.
func Uniform(p *memory.Program, o plan.Option) (*memory.Schedule, error) {
	return memory.Lower(p, &plan.Plan{Nodes: []plan.Node{{First: 0, Last: p.Graph.Layers - 1, Option: &o}}})
}

// profileAll simulates a program with the same option at every layer. several are storages that several layers may keep.
func profileAll(p *memory.Program, o plan.Option, sheet *gpu.Sheet, several map[graph.StorageID]bool) (*memory.Timeline, []memory.BlockProfile, error) {
	s, err := Uniform(p, o)
	if err != nil {
		return nil, nil, err
	}
	return memory.ProfileShared(s, sheet, several)
}

// At is the simulated part of a layer in a step whose layers all take option k.
func (m *Menu) At(k, layer int) *memory.BlockProfile {
	return &m.blocks[k][m.Chain.Graph.LayerBlock(m.Same[layer])]
}

// Saved is the bytes that a layer's backward frees under option k, not counting the parameter gradients that it leaves: the
// bytes that the option keeps between forward and backward less the growth of activation gradients (BlockProfile.Carried).
// Shared storages, which the first keeper frees when all layers take the same option, are not part of it.
func (m *Menu) Saved(k, layer int) int64 {
	b := m.At(k, layer)
	s := b.BackwardBefore - b.BackwardAfter + b.Grad
	if m.Same[layer] == 0 {
		s -= m.Always
	}
	for u := range m.shared {
		if m.shared[u].released(k) == m.Same[layer] {
			s -= m.shared[u].bytes
		}
	}
	return s
}

// Lingers is by how much more stays alive to the end of forward than the layer saves, whichever layer keeps it.
func (m *Menu) Lingers(k, layer int) int64 {
	b := m.At(k, layer)
	return b.ForwardAfter + m.freed(m.Same[layer], k) - b.ForwardBefore - m.Saved(k, layer)
}

// choice is option k at a layer as a row of the flat problem; up and down lift forward and backward onto its base.
func (m *Menu) choice(k, layer int, up, down int64) solve.Choice {
	b := m.At(k, layer)
	s := m.Saved(k, layer) + b.Carried
	return solve.Choice{
		Label:    m.Options[k].Name,
		Holds:    m.held(k, layer),
		Save:     s,
		Linger:   m.Lingers(k, layer) - b.Carried,
		Forward:  up + b.ForwardPeak - b.ForwardBefore,
		Backward: down + s + b.BackwardPeak - b.BackwardBefore,
		Time:     b.Recompute + b.Transfer,
	}
}

// Problem turns the costs into a flat problem. Blocks before the first layer and after the last run the same way
// under every plan: the first belong to the base, the last are the head.
//
// With D_i = before_i − after_i what layer i's backward releases net of the gradients g_i that it leaves, telescoping gives
// before_i = after_0 + Σ_{j≤i} D_j, so with s_i = D_i + g_i and Base = after_0 − Σ g the rows of Problem hold exactly.
func (m *Menu) Problem() *solve.Problem {
	g := m.Program.Graph
	first, last := g.LayerBlock(0), g.LayerBlock(g.Layers-1)
	p := &solve.Problem{Floor: m.Floor()}
	for u := range m.shared {
		p.Shared = append(p.Shared, m.shared[u].bytes)
	}
	var grads int64
	kept := m.AllKept
	for i := range g.Layers {
		b := &m.Base[g.LayerBlock(i)]
		blk := solve.Block{Grad: b.Grad + b.Carried}
		grads += blk.Grad
		kept += b.Carried
		p.Blocks = append(p.Blocks, blk)
	}
	for i := last + 1; i < len(g.Blocks); i++ {
		p.HeadGrad += m.Base[i].Grad
	}
	grads += p.HeadGrad
	forward := m.Base[first].ForwardBefore
	backward := m.Base[first].BackwardAfter - grads + m.Always
	p.Base = min(forward, backward)
	for i := range g.Layers {
		for k := range m.Options {
			p.Blocks[i].Choices = append(p.Blocks[i].Choices, m.choice(k, i, forward-p.Base, backward-p.Base))
		}
	}
	for i := last + 1; i < len(g.Blocks); i++ {
		b := &m.Base[i]
		p.HeadForward = max(p.HeadForward, forward-p.Base+b.ForwardPeak-m.Base[last].ForwardAfter)
		p.HeadBackward = max(p.HeadBackward, b.BackwardPeak-p.Base-kept)
	}
	p.HeadForward += m.FreedByHead()
	return p
}

// Floor is the peak that no choice changes: the optimizer's and the embedding's.
func (m *Menu) Floor() int64 {
	first := m.Program.Graph.LayerBlock(0)
	n := m.Untreated.Second.Peak[memory.Optimizer].Bytes
	for b := range first {
		n = max(n, m.Base[b].ForwardPeak, m.Base[b].BackwardPeak)
	}
	return n
}

// Slack is the most by which forward and backward rows overstate. In forward, tensors that a block leaves to the next one
// are counted whether they were saved or not (memory.BlockProfile), and tensors that forward frees unless some layer keeps
// them are counted to its end. In backward, shared storages that a layer frees early are counted to the end of its backward,
// because another layer may still hold them (memory.BlockProfile.BackwardExcess).
func (m *Menu) Slack() (forward, backward int64) {
	for i := range m.Base {
		forward = max(forward, m.Base[i].ForwardExcess)
	}
	for i := range m.late {
		if d := &m.late[i]; d.counts() {
			forward += d.bytes
		}
	}
	for k := range m.blocks {
		for i := range m.blocks[k] {
			backward = max(backward, m.blocks[k][i].BackwardExcess)
		}
	}
	return forward, backward
}

// Only is the menu without the options that are not allowed (nil: all are), and without those that another allowed one
// beats or equals in every cost at every layer. With capped, host memory is a cost as well.
func (m *Menu) Only(allowed func(*plan.Option) bool, capped bool) *Menu {
	layers := []int{}
	seen := map[int]bool{}
	for l, k := range m.Same {
		if !seen[k] {
			seen[k] = true
			layers = append(layers, l)
		}
	}
	beats := func(a, b int) bool {
		for _, l := range layers {
			x, y := m.choice(a, l, 0, 0), m.choice(b, l, 0, 0)
			if x.Holds&^y.Holds != 0 || x.Save > y.Save || x.Save+x.Linger > y.Save+y.Linger || x.Forward > y.Forward || x.Backward > y.Backward || x.Time > y.Time ||
				capped && m.At(a, l).Host > m.At(b, l).Host {
				return false
			}
		}
		return true
	}
	n := len(m.Options)
	drop := make([]bool, n)
	for k := range n {
		drop[k] = allowed != nil && !allowed(&m.Options[k])
	}
	for b := range n {
		for a := range n {
			if a != b && !drop[a] && !drop[b] && beats(a, b) {
				drop[b] = true
			}
		}
	}
	out := *m
	out.Options, out.blocks = undropped(m.Options, drop), undropped(m.blocks, drop)
	out.shared, out.late = slices.Clone(m.shared), slices.Clone(m.late)
	for i := range out.shared {
		out.shared[i] = out.shared[i].without(drop)
	}
	for i := range out.late {
		out.late[i].shared = out.late[i].without(drop)
	}
	return &out
}

// undropped are the elements of a list by option that are not dropped.
func undropped[T any](list []T, drop []bool) []T {
	var out []T
	for k := range list {
		if !drop[k] {
			out = append(out, list[k])
		}
	}
	return out
}
