package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Spans are the parts of a layer that a region can cover.
var Spans = []string{"layer", "attn", "core", "mlp", "act", "norm1", "norm2"}

// Offloads are the values of Region.Offload.
var Offloads = []string{"saved", "inputs"}

// shared are pairs of spans with ops in common: a norm's span ends with the projections that its sublayer begins
// with. The whole layer shares ops with every other span.
var shared = [][2]string{{"attn", "core"}, {"attn", "norm1"}, {"mlp", "act"}, {"mlp", "norm2"}}

func overlap(a, b string) bool {
	if a == b || a == "layer" || b == "layer" {
		return true
	}
	return slices.Contains(shared, [2]string{a, b}) || slices.Contains(shared, [2]string{b, a})
}

// problem is something wrong with a plan, at a path such as nodes[0].inner[2].last.
type problem struct{ path, text string }

// Validate says whether the plan is well formed for a model with that many layers: layers exist, are in order and covered
// once; segments nest properly; regions of an option do not overlap. Lower checks whether a model has a span.
func (p *Plan) Validate(layers int) error {
	ps := check(p.Nodes, layers)
	if len(ps) == 0 {
		return nil
	}
	texts := make([]string, len(ps))
	for i, q := range ps {
		texts[i] = q.path + ": " + q.text
	}
	return fmt.Errorf("%s", strings.Join(texts, "; "))
}

// check lists what is wrong with nodes over the layers 0…layers−1.
func check(ns []Node, layers int) []problem {
	c := checker{}
	c.nodes("nodes", ns, 0, layers-1, nil)
	return c.problems
}

type checker struct{ problems []problem }

func (c *checker) add(path, format string, args ...any) {
	c.problems = append(c.problems, problem{path, fmt.Sprintf(format, args...)})
}

// nodes checks siblings inside the layers lo…hi, which are those of the segment around them.
func (c *checker) nodes(path string, ns []Node, lo, hi int, around *Node) {
	covered := lo - 1 // the last layer that an earlier sibling covers
	for i := range ns {
		n, at := &ns[i], fmt.Sprintf("%s[%d]", path, i)
		sound := true
		switch {
		case n.First > n.Last:
			c.add(at+".last", "last %d is before first %d", n.Last, n.First)
			sound = false
		case around != nil && (n.First < lo || n.Last > hi):
			c.add(at+".first", "layers %s are outside the segment around them, %s", span(n.First, n.Last), span(lo, hi))
			sound = false
		case n.Last > hi:
			c.add(at+".last", "layer %d does not exist: the model has layers 0 to %d", n.Last, hi)
			sound = false
		case n.First < 0:
			c.add(at+".first", "layer %d does not exist: the model has layers 0 to %d", n.First, hi)
			sound = false
		case n.First <= covered:
			c.add(at+".first", "layer %d is covered twice, or nodes are not in the order of the layers: the node before ends with layer %d", n.First, covered)
		case around != nil && n.Segment && n.First == lo && n.Last == hi:
			c.add(at+".segment", "a segment inside a segment covers fewer layers than it")
		}
		c.kind(at, n)
		if n.Segment && sound {
			c.nodes(at+".inner", n.Inner, n.First, n.Last, n)
		}
		if n.Option != nil {
			c.option(at+".option", n.Option, around != nil)
		}
		covered = max(covered, n.Last)
	}
}

// kind checks that a node is either a leaf or a segment.
func (c *checker) kind(at string, n *Node) {
	switch {
	case n.Segment && n.Option != nil:
		c.add(at+".option", "a segment is one region and has no option: put a node with the option into inner")
	case !n.Segment && len(n.Inner) > 0:
		c.add(at+".inner", "only a segment has inner nodes: add segment: true")
	case !n.Segment && n.Option == nil:
		c.add(at, "a node needs an option, such as {name: full, regions: [{span: layer}]}, or segment: true")
	}
}

func (c *checker) option(at string, o *Option, nested bool) {
	switch {
	case o.Name == "":
		c.add(at, "an option needs a name, such as full")
	case o.Name == Keep.Name && len(o.Regions) > 0:
		c.add(at+".regions", "option keep has no regions")
	case o.Name == Full.Name && (len(o.Regions) != 1 || o.Regions[0].Span != "layer" || len(o.Regions[0].Cache) > 0 || o.Regions[0].Offload != ""):
		c.add(at, "option full is one region over the span layer, nothing cached or offloaded")
	}
	for i, r := range o.Regions {
		where := fmt.Sprintf("%s.regions[%d]", at, i)
		if !slices.Contains(Spans, r.Span) {
			c.add(where+".span", "unknown span %q: known are %s", r.Span, strings.Join(Spans, ", "))
			continue
		}
		for _, earlier := range o.Regions[:i] {
			if overlap(earlier.Span, r.Span) {
				c.add(where+".span", "span %s overlaps span %s: the regions of an option share no ops", r.Span, earlier.Span)
				break
			}
		}
		if r.Offload != "" && !slices.Contains(Offloads, r.Offload) {
			c.add(where+".offload", "offload %q is not one of %s", r.Offload, strings.Join(Offloads, ", "))
		}
		if nested && len(r.Cache) > 0 {
			c.add(where+".cache", "inside a segment no op can be cached: the segment's own recompute would keep it a second time")
		}
		if nested && r.Offload != "" {
			c.add(where+".offload", "inside a segment no tensor can be offloaded: the segment's own recompute would send it a second time")
		}
		if r.Window != 0 && r.Offload != "saved" {
			c.add(where+".window", "a window is for offload: saved")
		}
		if r.Offload == "saved" && len(r.Cache) > 0 {
			c.add(where+".cache", "offload: saved recomputes nothing, so there is nothing to cache")
		}
		for j, op := range r.Cache {
			if op == "" {
				c.add(fmt.Sprintf("%s.cache[%d]", where, j), "an op's label is empty")
			} else if slices.Contains(r.Cache[:j], op) {
				c.add(fmt.Sprintf("%s.cache[%d]", where, j), "op %s is listed twice", op)
			}
		}
	}
}

// span is a range of layers in words.
func span(first, last int) string {
	if first == last {
		return fmt.Sprintf("%d", first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}
