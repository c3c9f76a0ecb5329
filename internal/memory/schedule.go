package memory

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/model/graph"
	"ckptplan/internal/optimizer"
	"ckptplan/internal/plan"
)

// Schedule is a plan lowered to a graph: spans of ops under one checkpoint each. It contains no frees: a walk
// derives lifetimes from what the ops declare.
type Schedule struct {
	Program *Program
	Regions []Region
	// Owner is the innermost region of each op, or −1.
	Owner []int32
	// Optimizer is the step's.
	Optimizer *optimizer.Row
	// Passes are one step's, in order; every micro batch has a forward before its backward.
	Passes []Pass

	windowed bool // some region has a window
}

// Region is one checkpoint: ops First…End−1 are run again when backward first needs something they saved.
type Region struct {
	First, End graph.OpID
	Parent     int32
	Depth      int32 // 1 for a region inside no other checkpoint
	// Inputs are the storages that the region reads and others made: what the checkpoint keeps.
	Inputs []graph.StorageID
	// HostSaved: nothing is recomputed; each saved tensor goes to the host and comes back.
	HostSaved bool
	// Window is how many blocks may run before HostSaved's copies have left or arrived; 0: the compute stream makes them.
	Window int32
	// HostInputs: the output of the layer before is kept on the host; tables and masks stay on the device.
	HostInputs bool
	whole      bool // a layer, not a part of one
	// Sent are the inputs that HostInputs sends to the host; they are not in Inputs.
	Sent []graph.StorageID
	// Recast are autocast's copies of weights that forward finds in its cache, since an op before the region made them. The
	// cache is empty in backward: the recompute makes each again, and they are not in Inputs.
	// Source: aten/src/ATen/autocast_mode.cpp, cached_cast and clear_cache.
	Recast []graph.StorageID
	// Cached ops keep their outputs and are not run again.
	Cached map[graph.OpID]bool

	stop     graph.OpID // early stop: the op whose saving ends the recompute
	stopRuns bool       // that op runs, since it saves an output
	last     graph.OpID // the op whose release ends the checkpoint's frame; None if nothing is saved
	children []int32
}

// Lower turns a plan into regions over the program's ops. It is an error to name a part that a layer does not have.
func Lower(p *Program, pl *plan.Plan) (*Schedule, error) {
	step := &p.Graph.Step
	opt, err := optimizer.Lookup(step.Optimizer)
	if err != nil {
		return nil, err
	}
	s := &Schedule{Program: p, Owner: make([]int32, len(p.Graph.Ops)), Passes: accumulated(int64(step.MicroBatches)), Optimizer: opt}
	for i := range s.Owner {
		s.Owner[i] = -1
	}
	for _, sp := range p.Graph.Fixed {
		s.add(Region{First: sp.First, End: sp.End, Parent: -1})
	}
	if err := s.nodes(pl.Nodes, -1, 0, p.Graph.Layers-1); err != nil {
		return nil, err
	}
	for i := range s.Regions {
		if err := s.finish(int32(i)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Schedule) nodes(ns []plan.Node, parent int32, lo, hi int) error {
	for _, n := range ns {
		if n.First < lo || n.Last > hi || n.First > n.Last {
			return fmt.Errorf("layers %d to %d are outside %d to %d", n.First, n.Last, lo, hi)
		}
		lo = n.Last + 1
		if n.Segment {
			if between := s.Program.Graph.Between(n.First, n.Last); between != "" {
				return fmt.Errorf("layers %d to %d: a segment cannot cross the %s, which is not a layer and runs outside checkpoints", n.First, n.Last, between)
			}
			a, _ := s.Program.Graph.Span(n.First, "layer")
			z, _ := s.Program.Graph.Span(n.Last, "layer")
			r := s.add(Region{First: a.First, End: z.End, Parent: parent})
			if err := s.nodes(n.Inner, r, n.First, n.Last); err != nil {
				return err
			}
			continue
		}
		if n.Option == nil {
			continue
		}
		for l := n.First; l <= n.Last; l++ {
			for _, part := range n.Option.Regions {
				if err := s.part(l, part, parent); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// part adds the regions of one part of a layer.
func (s *Schedule) part(layer int, part plan.Region, parent int32) error {
	g := s.Program.Graph
	ranges := g.Parts(layer, part.Span)
	if len(ranges) == 0 {
		return noPart(g, layer, part.Span)
	}
	if parent >= 0 && (len(part.Cache) > 0 || part.Offload != "") {
		return fmt.Errorf("layer %d: inside a segment no op can be cached or offloaded", layer)
	}
	found := 0
	for _, sp := range ranges {
		r := Region{First: sp.First, End: sp.End, Parent: parent, HostSaved: part.Offload == "saved", Window: int32(part.Window), HostInputs: part.Offload == "inputs", whole: part.Span == "layer"}
		if len(part.Cache) > 0 {
			r.Cached = map[graph.OpID]bool{}
			whole, _ := g.Span(layer, "layer")
			labels := s.Program.layerLabels(layer, whole)
			for i := sp.First; i < sp.End; i++ {
				if label := labels[i-whole.First]; slices.Contains(part.Cache, label) {
					if why := g.Uncachable(i); why != "" {
						return fmt.Errorf("layer %d: %s cannot be cached: it %s", layer, label, why)
					}
					r.Cached[i] = true
				}
			}
			found += len(r.Cached)
		}
		for i := r.First; i < r.End; i++ {
			if s.Owner[i] != parent {
				return fmt.Errorf("layer %d: part %q shares ops with another region of the layer", layer, part.Span)
			}
		}
		s.add(r)
	}
	if found != len(part.Cache) {
		return fmt.Errorf("layer %d: part %q does not have all of the ops %v", layer, part.Span, part.Cache)
	}
	return nil
}

// noPart reports a part that a layer does not have, and names the parts that it has.
func noPart(g *graph.Graph, layer int, name string) error {
	var has []string
	for _, known := range plan.Spans {
		if len(g.Parts(layer, known)) > 0 {
			has = append(has, known)
		}
	}
	return fmt.Errorf("layer %d has no part %q that a checkpoint could wrap: %s with attention %s has %s", layer, name, g.Step.Class, g.Step.Attention, strings.Join(has, ", "))
}

func (s *Schedule) add(r Region) int32 {
	id := int32(len(s.Regions))
	r.Depth = 1
	if r.Parent >= 0 {
		r.Depth = s.Regions[r.Parent].Depth + 1
		s.Regions[r.Parent].children = append(s.Regions[r.Parent].children, id)
	}
	for i := r.First; i < r.End; i++ {
		s.Owner[i] = id
	}
	s.Regions = append(s.Regions, r)
	s.windowed = s.windowed || r.Window > 0
	return id
}

// finish derives what the checkpoint keeps and where its recompute stops. It is an error to send an input to the host if the
// region takes a view of a part of it: the copy that comes back would be smaller than the whole tensor.
func (s *Schedule) finish(id int32) error {
	r := &s.Regions[id]
	g := s.Program.Graph
	r.last, r.stop = graph.None, graph.None
	for i := r.First; i < r.End; i++ {
		e := &s.Program.ops[i]
		if e.save != e.saveEnd {
			if r.last == graph.None {
				r.last = i
			}
			if s.Owner[i] == id {
				r.stop, r.stopRuns = i, e.keepsOutput
			} else if c := s.child(id, i); !s.Regions[c].HostSaved && r.stop < s.Regions[c].First {
				r.stop, r.stopRuns = s.Regions[c].First, false // the child's inputs are saved before it runs
			}
		}
		for _, t := range g.Inputs(&g.Ops[i]) {
			st := g.Tensors[t].Storage
			if r.HostInputs && handedOver(g, t, r) {
				if g.Bytes(t) != g.Storages[st].Bytes {
					return fmt.Errorf("layer %d: offload inputs is for parts that take whole tensors, and this one takes a view of a part of the output of %s",
						g.Blocks[g.Ops[i].Block].Layer, g.Storages[st].Name)
				}
				if !slices.Contains(r.Sent, st) {
					r.Sent = append(r.Sent, st)
				}
				continue
			}
			if b := g.Storages[st].Born; b == graph.None || b >= r.First {
				continue
			}
			kept := &r.Inputs
			if g.Storages[st].Role == graph.WeightCast {
				kept = &r.Recast
			}
			if !slices.Contains(*kept, st) {
				*kept = append(*kept, st)
			}
		}
	}
	if r.last == graph.None {
		r.Cached = nil // no node reads it: the cache is freed with the frame
	}
	return nil
}

// child is the direct child of region id that op i is in.
func (s *Schedule) child(id int32, i graph.OpID) int32 {
	c := s.Owner[i]
	for s.Regions[c].Parent != id {
		c = s.Regions[c].Parent
	}
	return c
}

// Keeps are the storages that the forward pass keeps on the device for backward on behalf of ops first…end−1: what
// autograd saves outside regions, and the inputs of regions.
func (s *Schedule) Keeps(first, end graph.OpID) map[graph.StorageID]bool {
	out := map[graph.StorageID]bool{}
	for i := first; i < end; i++ {
		if own := s.Owner[i]; own >= 0 {
			for r := own; r >= 0; r = s.Regions[r].Parent {
				if reg := &s.Regions[r]; reg.Parent < 0 && reg.last != graph.None && !reg.HostSaved {
					for _, st := range reg.Inputs {
						out[st] = true
					}
				}
			}
			continue
		}
		e := &s.Program.ops[i]
		for _, sv := range s.Program.saves[e.save:e.saveEnd] {
			if !sv.static {
				out[sv.storage] = true
			}
		}
	}
	return out
}

// handedOver is true for an activation that the region's function takes as its positional argument: the residual
// stream, which requires grad, the model's own input, or another tensor that the class passes by position. That is how layers are called;
// inside them parts get masks, position biases and the encoder's output by keyword, which is kept as it is.
func handedOver(g *graph.Graph, t graph.TensorID, r *Region) bool {
	x := &g.Tensors[t]
	s := &g.Storages[x.Storage]
	switch {
	case s.Born == graph.None:
		return s.Role == graph.Input
	case s.Born >= r.First || s.Role == graph.WeightCast:
		return false
	case s.Positional:
		return r.whole
	}
	return x.Grad
}
