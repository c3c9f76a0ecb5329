package plan

import (
	"go.yaml.in/yaml/v4"

	"ckptplan/internal/unit"
)

// CertifiedChain is the problem that a plan of class nested answers, and the answer. The layers are numbered 0…n−1; layer
// i reads a_{i−1} and writes a_i (output), and a_{−1} is the chain's input. A plan is a list of nodes that cover all
// layers in order. Each node does one of two things:
//
//	keep i by an option    the layer's saved set ā_i, its output in it, stays until the layer's backward
//	checkpoint i…j         only a_{i−1} and a_j stay; right before the backward of layer j a list of nodes inside it, over
//	                       the same layers, runs from a_{i−1}, and then backward goes through that list
//
// Forward passes over the list, the head turns, backward passes over the list from its end. With the numbers of an
// option at a layer, these bytes are alive above the base, the input and what earlier nodes keep:
//
//	forward of a layer kept        ā_i + forward_overhead                        for forward_ns
//	forward of layer l of i…j      a_l + forward_overhead (+ a_{l−1} if l > i)   for forward_ns, by the fastest option
//	                               there and, among equals, the one with the least overhead
//	head                           a_{n−1} unless it is in ā_{n−1}, + its bytes  for its time_ns
//	backward of a layer kept       ā_i + d_i + backward_overhead                 for backward_ns
//
// During forward inside a checkpoint i…j, the innermost one, the gradient d_j is alive as well. A layer's parameter gradient
// stays from its backward on, the head's from the head on. The list inside a checkpoint ends with a layer kept, whose
// forward takes early_stop_ns less. A list inside a checkpoint has at least two nodes or is one layer kept.
//
// Peaks by these rows are slightly pessimistic: at least those of a simulation, and equal for most plans. Times are those of
// a simulation. The claim is: of all plans whose peak by the rows is at most limit_bytes, and whose layers run forward at
// most max_forwards times (0: however often), none takes less than bound_ns. Status optimal says that this plan takes
// no more.
type CertifiedChain struct {
	Base  unit.Bytes `yaml:"base_bytes" json:"base_bytes"`
	Input unit.Bytes `yaml:"input_bytes" json:"input_bytes"`
	// Floor is a peak that no plan changes (embedding, optimizer step).
	Floor       unit.Bytes `yaml:"floor_bytes" json:"floor_bytes"`
	MaxForwards int        `yaml:"max_forwards" json:"max_forwards"`
	// Bridges says that plans may keep a saved set while the layer's input is dropped. PyTorch cannot run such plans.
	Bridges bool `yaml:"bridges" json:"bridges"`
	// Limit is the tensor budget, or this plan's peak by the rows if that is more.
	Limit unit.Bytes `yaml:"limit_bytes" json:"limit_bytes"`
	// Peak and Time are this plan's by the rows, Time of forward and backward of one micro-batch from the first layer on.
	Peak    unit.Bytes     `yaml:"peak_bytes" json:"peak_bytes"`
	Time    int64          `yaml:"time_ns" json:"time_ns"`
	Bound   int64          `yaml:"bound_ns" json:"bound_ns"`
	Head    ChainHead      `yaml:"head" json:"head"`
	Layers  []ChainTensors `yaml:"layers" json:"layers"`
	Options []ChainOption  `yaml:"options" json:"options"`
}

// ChainHead is everything after the layers: the most that its forward and its backward need above the last layer's
// output and what layers keep, and the parameter gradient that stays.
type ChainHead struct {
	Forward  unit.Bytes `yaml:"forward_bytes" json:"forward_bytes"`
	Backward unit.Bytes `yaml:"backward_bytes" json:"backward_bytes"`
	Gradient unit.Bytes `yaml:"gradient_bytes" json:"gradient_bytes"`
	Time     int64      `yaml:"time_ns" json:"time_ns"`
}

// ChainTensors are the sizes that some layers have whatever their option: of the output a, of its gradient d, and of
// the parameter gradient.
type ChainTensors struct {
	Layers             string     `yaml:"layers" json:"layers"` // as FormatLayers writes them
	Output             unit.Bytes `yaml:"output_bytes" json:"output_bytes"`
	Gradient           unit.Bytes `yaml:"gradient_bytes" json:"gradient_bytes"`
	ParametersGradient unit.Bytes `yaml:"parameters_gradient_bytes" json:"parameters_gradient_bytes"`
}

// ChainOption is an option with its numbers at every layer.
type ChainOption struct {
	Option Option       `yaml:"option" json:"option"`
	Rows   []ChainPrice `yaml:"rows" json:"rows"`
}

// ChainPrice is what an option costs at some layers.
type ChainPrice struct {
	Layers           string     `yaml:"layers" json:"layers"`
	Saved            unit.Bytes `yaml:"saved_bytes" json:"saved_bytes"`
	ForwardOverhead  unit.Bytes `yaml:"forward_overhead_bytes" json:"forward_overhead_bytes"`
	BackwardOverhead unit.Bytes `yaml:"backward_overhead_bytes" json:"backward_overhead_bytes"`
	Forward          int64      `yaml:"forward_ns" json:"forward_ns"`
	Backward         int64      `yaml:"backward_ns" json:"backward_ns"`
	// EarlyStop is below 0 where a recompute takes longer than the first forward.
	EarlyStop int64 `yaml:"early_stop_ns" json:"early_stop_ns"`
}

const chainComment = `
# Why no nested plan is faster, to be checked without the solver (ckptplan show --check): the bytes and nanoseconds of
# every option at every layer. No plan that needs at most limit_bytes by these rows takes less than bound_ns.
`

// chain reads a CertifiedChain.
func (r *reader) chain(c *CertifiedChain) fieldReaders {
	return fieldReaders{
		"base_bytes": r.bytesInto(&c.Base), "input_bytes": r.bytesInto(&c.Input), "floor_bytes": r.bytesInto(&c.Floor),
		"max_forwards": func(where string, v *yaml.Node) { c.MaxForwards = r.Count(where, v, 0) },
		"bridges":      func(where string, v *yaml.Node) { c.Bridges = r.Truth(where, v) },
		"limit_bytes":  r.bytesInto(&c.Limit), "peak_bytes": r.bytesInto(&c.Peak),
		"time_ns": r.intInto(&c.Time), "bound_ns": r.intInto(&c.Bound),
		"head": func(where string, v *yaml.Node) {
			r.fields(where, v, fieldReaders{
				"forward_bytes": r.bytesInto(&c.Head.Forward), "backward_bytes": r.bytesInto(&c.Head.Backward),
				"gradient_bytes": r.bytesInto(&c.Head.Gradient), "time_ns": r.intInto(&c.Head.Time),
			})
		},
		"layers": listInto(r, &c.Layers, "[{layers: 0-31, output_bytes: 1, gradient_bytes: 1, parameters_gradient_bytes: 1}]", func(x *ChainTensors) fieldReaders {
			return fieldReaders{
				"layers": r.plainInto(&x.Layers), "output_bytes": r.bytesInto(&x.Output), "gradient_bytes": r.bytesInto(&x.Gradient),
				"parameters_gradient_bytes": r.bytesInto(&x.ParametersGradient),
			}
		}),
		"options": listInto(r, &c.Options, "[{option: {name: keep, regions: []}, rows: []}]", func(o *ChainOption) fieldReaders {
			return fieldReaders{
				"option": func(where string, v *yaml.Node) { o.Option = *r.option(where, v) },
				"rows": listInto(r, &o.Rows, "[{layers: 0-31, saved_bytes: 1}]", func(p *ChainPrice) fieldReaders {
					return fieldReaders{
						"layers": r.plainInto(&p.Layers), "saved_bytes": r.bytesInto(&p.Saved),
						"forward_overhead_bytes": r.bytesInto(&p.ForwardOverhead), "backward_overhead_bytes": r.bytesInto(&p.BackwardOverhead),
						"forward_ns": r.intInto(&p.Forward), "backward_ns": r.intInto(&p.Backward), "early_stop_ns": r.signedInto(&p.EarlyStop),
					}
				}),
			}
		}),
	}
}
