package export

import (
	"fmt"
	"slices"
	"strings"

	"ckptplan/internal/plan"
)

// form is a plan as a trainer's settings see it. The plans that settings cannot say, with kept ops, offload or segments inside
// segments, have none.
type form struct {
	layers  int
	regions [][]string // by layer: the parts that are regions; the layer itself is the part layer
	segment int        // layers of each of the uniform segments, or 0
	whole   []int      // layers that are regions of their own
	parts   []string   // parts that are regions in every layer, if they are the same in all
}

// formOf is the form of a plan of so many layers; false if it has none.
func formOf(p *plan.Plan, layers int) (*form, bool) {
	f := &form{layers: layers, regions: make([][]string, layers)}
	covered := 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Segment {
			size := n.Last - n.First + 1
			if f.segment == 0 {
				f.segment = size
			}
			if len(n.Inner) > 0 || n.First != covered || size > f.segment || size < f.segment && n.Last != layers-1 {
				return nil, false
			}
			covered = n.Last + 1
			continue
		}
		if n.Option == nil {
			continue
		}
		parts, ok := plainParts(n.Option)
		if !ok || f.segment > 0 {
			return nil, false
		}
		for l := n.First; l <= n.Last; l++ {
			f.regions[l] = parts
		}
	}
	switch {
	case f.segment > 0 && covered != layers:
		return nil, false
	case f.segment == 1:
		f.segment = 0
		for l := range layers {
			f.regions[l] = []string{"layer"}
		}
	}
	for l, parts := range f.regions {
		if slices.Equal(parts, []string{"layer"}) {
			f.whole = append(f.whole, l)
		}
	}
	if f.segment == 0 && len(f.whole) == 0 && !slices.ContainsFunc(f.regions, func(parts []string) bool { return !slices.Equal(parts, f.regions[0]) }) {
		f.parts = f.regions[0]
	}
	if slices.ContainsFunc(f.regions, func(parts []string) bool { return len(parts) > 0 && !slices.Equal(parts, []string{"layer"}) }) && f.parts == nil {
		f.whole = nil // a mixture, which only settings by module say
	}
	return f, true
}

// plainParts are the parts of an option that does no more than recompute them.
func plainParts(o *plan.Option) (parts []string, ok bool) {
	for _, r := range o.Regions {
		if len(r.Cache) > 0 || r.Offload != "" {
			return nil, false
		}
		parts = append(parts, r.Span)
	}
	return parts, true
}

// none is true for the plan that recomputes nothing.
func (f *form) none() bool {
	return f.segment == 0 && !slices.ContainsFunc(f.regions, func(parts []string) bool { return len(parts) > 0 })
}

// all is true if every layer is a region of its own.
func (f *form) all() bool { return len(f.whole) == f.layers }

// first is the number of layers if the first of them are regions of their own, and 0 otherwise.
func (f *form) first() int {
	if n := len(f.whole); n > 0 && f.whole[n-1] == n-1 {
		return n
	}
	return 0
}

// every is k if layers 0, k, 2k … are regions of their own, and 0 otherwise.
func (f *form) every() int {
	if len(f.whole) < 2 || f.whole[0] != 0 {
		return 0
	}
	k := f.whole[1]
	for i, l := range f.whole {
		if l != i*k {
			return 0
		}
	}
	if f.whole[len(f.whole)-1]+k < f.layers {
		return 0
	}
	return k
}

// numbers are the layers as a list: 0, 2, 4.
func (f *form) numbers() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(f.whole), " ", ", "), "[]")
}
