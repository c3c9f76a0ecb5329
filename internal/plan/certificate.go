package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/unit"
)

// Certificate is what a solver claims about a plan, with everything needed to check it without the solver: the
// plan's own peak and time, the costs of every option at every layer, and a lower bound on the time of any plan
// that can be added up by hand.
//
// With s, f, q, p, r as the save, save_forward, forward, backward bytes and the time of a layer's option, g a layer's
// gradient, A_i = Σ_{j<i} s_j, F_i = Σ_{j<i} f_j and G_{>i} = Σ_{j>i} g_j (the head's included), the class "flat" is
//
//	minimise  Σ_i r_i
//	base + F_i + max(0, q_i − slack)            ≤ tensor budget  forward of layer i; the head is the last row
//	base + A_i + max(0, p_i − slack_b) + G_{>i} ≤ tensor budget  backward of layer i; the head's is as it is
//	floor                                       ≤ tensor budget
//
// over one option of the menu for each layer. A shared tensor adds its bytes to A_i and p_i from the first layer on
// that holds it, once. The class "nested" is that of CertifiedChain.
type Certificate struct {
	Class string `yaml:"class" json:"class"`
	// Status is optimal (no plan of the class is faster) or feasible.
	Status string `yaml:"status" json:"status"`
	// Budget is the whole device; Reserve is left beside the tensors, TensorBudget is the rest.
	Budget       unit.Bytes      `yaml:"budget_bytes" json:"budget_bytes"`
	Reserve      unit.Bytes      `yaml:"reserve_bytes" json:"reserve_bytes"`
	TensorBudget unit.Bytes      `yaml:"tensor_budget_bytes" json:"tensor_budget_bytes"`
	Card         CertifiedCard   `yaml:"card" json:"card"`
	Peak         CertifiedPeak   `yaml:"peak" json:"peak"`
	Time         CertifiedTime   `yaml:"time" json:"time"`
	Closed       CertifiedSearch `yaml:"closed" json:"closed"`
	// Bound and Menu are of a flat plan, Chain is of a nested one. All are nil if no optimum is proved.
	Bound *CertifiedBound `yaml:"dual,omitempty" json:"dual,omitempty"`
	Menu  *CertifiedMenu  `yaml:"menu,omitempty" json:"menu,omitempty"`
	Chain *CertifiedChain `yaml:"chain,omitempty" json:"chain,omitempty"`
}

// CertifiedCard is the card that times are for.
type CertifiedCard struct {
	Name string `yaml:"name" json:"name"`
	// Sheet is RatesFingerprint of the card's data sheet.
	Sheet string `yaml:"sheet_fingerprint" json:"sheet_fingerprint"`
}

// CertifiedPeak is the peak of the replayed plan, in the second training step.
type CertifiedPeak struct {
	Bytes unit.Bytes `yaml:"tensor_bytes" json:"tensor_bytes"`
	Phase string     `yaml:"phase" json:"phase"`
	Block string     `yaml:"block,omitempty" json:"block,omitempty"`
	Op    string     `yaml:"op" json:"op"`
	// Owners are the largest groups of tensors alive at the peak, not all of them.
	Owners []CertifiedOwner `yaml:"owners" json:"owners"`
}

// CertifiedOwner is a group of equal tensors.
type CertifiedOwner struct {
	Category string     `yaml:"category" json:"category"`
	What     string     `yaml:"what" json:"what"`
	Block    string     `yaml:"block,omitempty" json:"block,omitempty"`
	Each     unit.Bytes `yaml:"each_bytes" json:"each_bytes"`
	Count    int        `yaml:"count" json:"count"`
}

// CertifiedTime is the time of the replayed plan in nanoseconds.
type CertifiedTime struct {
	Step int64 `yaml:"step_ns" json:"step_ns"`
	// Extra is what recomputation and transfers add to a micro-batch: what the solver minimises.
	Extra int64 `yaml:"extra_ns" json:"extra_ns"`
}

// CertifiedBound is a Lagrangian bound: with λ_i the multiplier of the backward row of layer i and ν_i that of its
// forward row, and R = tensor budget − base, no plan of the class takes less extra time than
//
//	Σ_i min_k [ r_ik + s_ik·Σ_{l>i} λ_l + f_ik·Σ_{l>i} ν_l + λ_i·(max(0, p_ik − slack_b) + G_{>i} − R) + ν_i·(max(0, q_ik − slack) − R) ],
//
// rounded up to whole nanoseconds; the head is the last i. Multipliers that are not listed are 0.
type CertifiedBound struct {
	Rows  []PricedRow `yaml:"rows" json:"rows"`
	Bound int64       `yaml:"bound_ns" json:"bound_ns"`
	Gap   int64       `yaml:"gap_ns" json:"gap_ns"` // extra time − bound
}

// PricedRow is the multiplier of one row of the problem.
type PricedRow struct {
	Phase string `yaml:"phase" json:"phase"` // forward or backward
	Row   string `yaml:"row" json:"row"`     // a layer's number, or head
	// Lambda is in nanoseconds per TiB (2^40 bytes).
	Lambda int64 `yaml:"lambda_ns_per_tib" json:"lambda_ns_per_tib"`
}

// CertifiedSearch says how the gap between time and bound was closed.
type CertifiedSearch struct {
	// How is dual-tight (the bound is the time), exact-search (no label of the search is faster), recurrence (the bound is
	// the least time of all nested plans, by dynamic programming over intervals of layers), nothing-added (the plan treats
	// no layer; where checkpointing changes the graph, with adapters, it runs on a graph with the same ops or fewer),
	// stopped, or none.
	How    string `yaml:"how" json:"how"`
	Labels int64  `yaml:"labels,omitempty" json:"labels,omitempty"` // kept by the solver's search
}

// CertifiedMenu holds the rows of the problem.
type CertifiedMenu struct {
	// Base is alive at every moment, Floor a peak that no choice changes (embedding, optimizer step).
	Base  unit.Bytes    `yaml:"base_bytes" json:"base_bytes"`
	Floor unit.Bytes    `yaml:"floor_bytes" json:"floor_bytes"`
	Head  CertifiedHead `yaml:"head" json:"head"`
	// Slack is the most by which forward rows overstate: the bytes of tensors whose end in forward depends on other
	// layers' options. Bounds and searches subtract it.
	Slack unit.Bytes `yaml:"forward_slack_bytes,omitempty" json:"forward_slack_bytes,omitempty"`
	// SlackBackward is that of the layers' backward rows: a shared tensor that a layer frees is counted to the end of that
	// layer's backward.
	SlackBackward unit.Bytes `yaml:"backward_slack_bytes,omitempty" json:"backward_slack_bytes,omitempty"`
	// Gradients are the bytes that a layer's backward leaves: parameter gradients, which stay, and the net growth of the
	// other gradients that are alive, such as that of an encoder's output.
	Gradients []LayerBytes      `yaml:"gradients" json:"gradients"`
	Shared    []SharedTensor    `yaml:"shared,omitempty" json:"shared,omitempty"`
	Options   []CertifiedOption `yaml:"options" json:"options"`
}

// CertifiedHead is the last row: everything after the layers.
type CertifiedHead struct {
	Forward  unit.Bytes `yaml:"forward_bytes" json:"forward_bytes"`
	Backward unit.Bytes `yaml:"backward_bytes" json:"backward_bytes"`
	Gradient unit.Bytes `yaml:"gradient_bytes" json:"gradient_bytes"`
}

// LayerBytes is a change of what is alive, in bytes, that some layers have in common.
type LayerBytes struct {
	Layers string `yaml:"layers" json:"layers"` // as FormatLayers writes them
	Bytes  int64  `yaml:"bytes" json:"bytes"`
}

// SharedTensor is made before the layers, or by one for others, and held for backward by some options at some layers (an
// attention mask, a position bias).
type SharedTensor struct {
	Bytes unit.Bytes `yaml:"bytes" json:"bytes"`
	Held  []Holder   `yaml:"held_by" json:"held_by"`
}

// Holder are the layers at which an option holds a shared tensor.
type Holder struct {
	Option string `yaml:"option" json:"option"`
	Layers string `yaml:"layers" json:"layers"`
}

// CertifiedOption is an option with its costs at every layer.
type CertifiedOption struct {
	Option Option       `yaml:"option" json:"option"`
	Rows   []LayerPrice `yaml:"rows" json:"rows"`
}

// LayerPrice is what an option costs at some layers.
type LayerPrice struct {
	Layers string `yaml:"layers" json:"layers"`
	// Save is alive from the layer's forward to its backward, SaveForward from its forward to the end of forward.
	Save        int64 `yaml:"save_bytes" json:"save_bytes"`
	SaveForward int64 `yaml:"save_forward_bytes" json:"save_forward_bytes"`
	// Forward and Backward are the most the layer's forward and backward need above the base and what earlier layers
	// save.
	Forward  int64 `yaml:"forward_bytes" json:"forward_bytes"`
	Backward int64 `yaml:"backward_bytes" json:"backward_bytes"`
	Time     int64 `yaml:"time_ns" json:"time_ns"`
}

// RatesFingerprint is a short hash of the numbers of a data sheet that times are made of: peak FLOP/s of fp32, tf32,
// bf16 and fp16, memory and host link in bytes a second.
func RatesFingerprint(fp32, tf32, bf16, fp16, bandwidth, link int64) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d %d %d\n", fp32, tf32, bf16, fp16, bandwidth, link))
	return hex.EncodeToString(h[:6])
}

// FormatLayers writes layer numbers, in order, as runs: "0,2-5".
func FormatLayers(layers []int) string {
	var runs []string
	for i := 0; i < len(layers); {
		j := i
		for j+1 < len(layers) && layers[j+1] == layers[j]+1 {
			j++
		}
		run := strconv.Itoa(layers[i])
		if j > i {
			run += "-" + strconv.Itoa(layers[j])
		}
		runs = append(runs, run)
		i = j + 1
	}
	return strings.Join(runs, ",")
}

// ParseLayers reads what FormatLayers writes; every layer is below n and named once, in order.
func ParseLayers(text string, n int) ([]int, error) {
	var out []int
	next := 0
	for run := range strings.SplitSeq(text, ",") {
		a, b, isRun := strings.Cut(run, "-")
		first, err := strconv.Atoi(a)
		last := first
		if isRun && err == nil {
			last, err = strconv.Atoi(b)
		}
		if err != nil || first < next || last < first || last >= n {
			return nil, fmt.Errorf("layers %q: expected runs in order such as 0,2-5, below %d", text, n)
		}
		for i := first; i <= last; i++ {
			out = append(out, i)
		}
		next = last + 1
	}
	return out, nil
}

const certificateComment = `
# Why no plan of the class is faster, to be checked without the solver (ckptplan show --check).
# Layer i may choose one option; A and F sum save and save_forward bytes of the layers before it, G gradients after it:
#   base + F + forward <= tensor budget,  base + A + backward + G <= tensor budget,  least sum of time_ns.
`

// certificateOf is a certificate as YAML nodes, a row of a table a line.
func certificateOf(c *Certificate) (*yaml.Node, error) {
	n := &yaml.Node{}
	if err := n.Encode(c); err != nil {
		return nil, err
	}
	oneLiners(n)
	return n, nil
}

// oneLiners writes maps of plain values, and options, on a line of their own.
func oneLiners(n *yaml.Node) {
	flat := n.Kind == yaml.MappingNode
	for i, e := range n.Content {
		oneLiners(e)
		isOption := n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "option"
		if isOption || e.Kind == yaml.SequenceNode && len(e.Content) == 0 {
			e.Style = yaml.FlowStyle
		}
		flat = flat && e.Kind == yaml.ScalarNode
	}
	if flat {
		n.Style = yaml.FlowStyle
	}
}

// fields reads a map with one function a key, all of which must be there but the optional ones.
func (r *reader) fields(where string, n *yaml.Node, read map[string]func(where string, v *yaml.Node), optional ...string) {
	keys := make([]string, 0, len(read))
	for k := range read {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	seen := map[string]bool{}
	r.Map(where, n, "{"+keys[0]+": …}", keys, func(key string, v *yaml.Node) {
		seen[key] = true
		read[key](where+"."+key, v)
	})
	for _, k := range keys {
		if n.Kind == yaml.MappingNode && !seen[k] && !slices.Contains(optional, k) {
			r.At(n, "%s needs %s", where, k)
		}
	}
}

type fieldReaders = map[string]func(where string, v *yaml.Node)

func (r *reader) bytesInto(p *unit.Bytes) func(string, *yaml.Node) {
	return func(where string, v *yaml.Node) { *p = unit.Bytes(r.Int64(where, v)) }
}

func (r *reader) intInto(p *int64) func(string, *yaml.Node) {
	return func(where string, v *yaml.Node) { *p = r.Int64(where, v) }
}

// signedInto reads a whole number that may be negative.
func (r *reader) signedInto(p *int64) func(string, *yaml.Node) {
	return func(where string, v *yaml.Node) {
		x, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil || v.Kind != yaml.ScalarNode {
			r.At(v, "%s is a whole number", where)
		}
		*p = x
	}
}

func (r *reader) wordInto(p *string, enum ...string) func(string, *yaml.Node) {
	return func(where string, v *yaml.Node) { *p = r.Word(where, v, enum) }
}

func (r *reader) plainInto(p *string) func(string, *yaml.Node) {
	return func(where string, v *yaml.Node) {
		if v.Kind != yaml.ScalarNode {
			r.At(v, "%s is a word", where)
		}
		*p = v.Value
	}
}

// listInto reads a list of maps.
func listInto[T any](r *reader, p *[]T, form string, read func(*T) fieldReaders, optional ...string) func(string, *yaml.Node) {
	return func(where string, v *yaml.Node) {
		r.List(where, v, form, func(e *yaml.Node) {
			var x T
			r.fields(fmt.Sprintf("%s[%d]", where, len(*p)), e, read(&x), optional...)
			*p = append(*p, x)
		})
	}
}

func (r *reader) certificate(where string, n *yaml.Node) *Certificate {
	c, b, m, chain := &Certificate{}, &CertifiedBound{}, &CertifiedMenu{}, &CertifiedChain{}
	nested := func(read fieldReaders, optional ...string) func(string, *yaml.Node) {
		return func(where string, v *yaml.Node) { r.fields(where, v, read, optional...) }
	}
	r.fields(where, n, fieldReaders{
		"class":               r.wordInto(&c.Class),
		"status":              r.wordInto(&c.Status, "optimal", "feasible"),
		"budget_bytes":        r.bytesInto(&c.Budget),
		"reserve_bytes":       r.bytesInto(&c.Reserve),
		"tensor_budget_bytes": r.bytesInto(&c.TensorBudget),
		"card":                nested(fieldReaders{"name": r.plainInto(&c.Card.Name), "sheet_fingerprint": r.plainInto(&c.Card.Sheet)}),
		"peak": nested(fieldReaders{
			"tensor_bytes": r.bytesInto(&c.Peak.Bytes), "phase": r.wordInto(&c.Peak.Phase, "forward", "backward", "optimizer"),
			"block": r.plainInto(&c.Peak.Block), "op": r.plainInto(&c.Peak.Op),
			"owners": listInto(r, &c.Peak.Owners, "[{category: weights, what: parameters, each_bytes: 1, count: 1}]", func(o *CertifiedOwner) fieldReaders {
				return fieldReaders{
					"category": r.plainInto(&o.Category), "what": r.plainInto(&o.What), "block": r.plainInto(&o.Block), "each_bytes": r.bytesInto(&o.Each),
					"count": func(where string, v *yaml.Node) { o.Count = r.Count(where, v, 1) },
				}
			}, "block"),
		}, "block"),
		"time": nested(fieldReaders{"step_ns": r.intInto(&c.Time.Step), "extra_ns": r.intInto(&c.Time.Extra)}),
		"dual": nested(fieldReaders{
			"bound_ns": r.intInto(&b.Bound), "gap_ns": r.signedInto(&b.Gap),
			"rows": listInto(r, &b.Rows, "[{phase: backward, row: head, lambda_ns_per_tib: 1}]", func(p *PricedRow) fieldReaders {
				return fieldReaders{"phase": r.wordInto(&p.Phase, "forward", "backward"), "row": r.plainInto(&p.Row), "lambda_ns_per_tib": r.intInto(&p.Lambda)}
			}),
		}),
		"closed": nested(fieldReaders{
			"how":    r.wordInto(&c.Closed.How, "dual-tight", "exact-search", "recurrence", "nothing-added", "stopped", "none"),
			"labels": r.intInto(&c.Closed.Labels),
		}, "labels"),
		"menu": nested(fieldReaders{
			"base_bytes": r.bytesInto(&m.Base), "floor_bytes": r.bytesInto(&m.Floor), "forward_slack_bytes": r.bytesInto(&m.Slack), "backward_slack_bytes": r.bytesInto(&m.SlackBackward),
			"head": nested(fieldReaders{
				"forward_bytes": r.bytesInto(&m.Head.Forward), "backward_bytes": r.bytesInto(&m.Head.Backward),
				"gradient_bytes": r.bytesInto(&m.Head.Gradient),
			}),
			"gradients": listInto(r, &m.Gradients, "[{layers: 0-31, bytes: 1}]", func(g *LayerBytes) fieldReaders {
				return fieldReaders{"layers": r.plainInto(&g.Layers), "bytes": r.signedInto(&g.Bytes)}
			}),
			"shared": listInto(r, &m.Shared, "[{bytes: 1, held_by: []}]", func(s *SharedTensor) fieldReaders {
				return fieldReaders{"bytes": r.bytesInto(&s.Bytes), "held_by": listInto(r, &s.Held, "[{option: full, layers: 0-31}]", func(h *Holder) fieldReaders {
					return fieldReaders{"option": r.plainInto(&h.Option), "layers": r.plainInto(&h.Layers)}
				})}
			}),
			"options": listInto(r, &m.Options, "[{option: {name: full, regions: [{span: layer}]}, rows: []}]", func(o *CertifiedOption) fieldReaders {
				return fieldReaders{
					"option": func(where string, v *yaml.Node) { o.Option = *r.option(where, v) },
					"rows": listInto(r, &o.Rows, "[{layers: 0-31, save_bytes: 1}]", func(p *LayerPrice) fieldReaders {
						return fieldReaders{
							"layers": r.plainInto(&p.Layers), "save_bytes": r.signedInto(&p.Save), "save_forward_bytes": r.signedInto(&p.SaveForward),
							"forward_bytes": r.signedInto(&p.Forward), "backward_bytes": r.signedInto(&p.Backward), "time_ns": r.intInto(&p.Time),
						}
					}),
				}
			}),
		}, "shared", "forward_slack_bytes", "backward_slack_bytes"),
		"chain": nested(r.chain(chain)),
	}, "dual", "menu", "chain")
	if hasKey(n, "dual") && hasKey(n, "menu") {
		c.Bound, c.Menu = b, m
	}
	if hasKey(n, "chain") {
		c.Chain = chain
	}
	return c
}

func hasKey(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}
