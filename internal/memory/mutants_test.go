package memory

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"ckptplan/internal/groundtruth"
	"ckptplan/internal/model/graph"
)

// harmless are the parts of rows that change nothing measurable, and why.
var harmless = map[string]string{
	"aten._fused_rms_norm without saved tensor 1":                 "a parameter, alive anyway",
	"aten._grouped_mm without saved tensor 1":                     "a parameter, alive anyway",
	"aten.baddbmm without step 4":                                 "the gradient of the position bias, which takes none",
	"aten.baddbmm without step 2":                                 "the gradient of the mask, which takes none",
	"aten.convolution without step 0":                             "the gradient of the pixels, which take none",
	"aten._scaled_dot_product_efficient_attention without step 3": "the gradient of the mask, which takes none",
	"aten.sum without step 0":                                     "a view of one gradient that is added in place to another",
}

// unseen are rows that no case runs.
var unseen = map[string]string{
	"aten._scaled_dot_product_flash_attention_for_cpu": "cases are of CUDA's ops; the CPU's are compared with a real run by internal/exec",
}

// TestMutants tests TestAccuracy: without any one of the tensors that a row of the op table saves, or of the steps of its
// backward, some measured case is no longer exact.
func TestMutants(t *testing.T) {
	runs := map[*graph.Row][]run{}
	for _, c := range groundtruth.Load(t) {
		sch, err := schedule(c)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		r := run{c, sch.Program.Graph}
		for i := range r.graph.Ops {
			row := r.graph.Ops[i].Row()
			if l := runs[row]; len(l) == 0 || l[len(l)-1].c != c {
				runs[row] = append(l, r)
			}
		}
	}
	tried := 0
	spared := map[string]bool{}
	for k := range graph.Table {
		row := &graph.Table[k]
		was, rs := *row, runs[row]
		if len(was.Save)+len(was.Back) > 0 && len(rs) == 0 {
			if unseen[was.Aten] == "" {
				t.Errorf("no case runs %s (row %d)", was.Aten, k)
			}
			continue
		}
		slices.SortStableFunc(rs, func(a, b run) int { return cmp.Compare(len(a.graph.Ops), len(b.graph.Ops)) })
		try := func(what string) {
			tried++
			if !slices.ContainsFunc(rs, run.differs) {
				name := was.Aten + " without " + what
				if spared[name] = true; harmless[name] == "" {
					t.Errorf("%s (row %d): all %d cases that run it are as before", name, k, len(rs))
				}
			}
			*row = was
		}
		for i := range was.Save {
			row.Save = slices.Delete(slices.Clone(was.Save), i, i+1)
			try(fmt.Sprintf("saved tensor %d", i))
		}
		for i := range was.Back {
			row.Back = slices.Delete(slices.Clone(was.Back), i, i+1)
			try(fmt.Sprintf("step %d", i))
		}
	}
	for name := range harmless {
		if !spared[name] {
			t.Errorf("%s is not harmless", name)
		}
	}
	t.Logf("%d mutants, %d of them harmless", tried, len(spared))
}

// run is a case with its graph, which does not depend on what rows save and on their backward.
type run struct {
	c     *groundtruth.Case
	graph *graph.Graph
}

// differs is true if the simulation is not what TestAccuracy asks for.
func (r run) differs() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	sch, err := scheduleOn(r.c, r.graph)
	if err != nil {
		return true
	}
	tl, err := Simulate(sch, nil)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(compare(r.c, tl), func(n number) bool { return !n.asExpected() })
}
