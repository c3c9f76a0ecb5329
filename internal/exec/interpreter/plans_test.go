package interpreter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// randomPlan draws leaves, segments and segments inside segments, with cached ops and offloading where plans may have
// them.
func randomPlan(r *rand.Rand, g *graph.Graph) *plan.Plan {
	return &plan.Plan{Strategy: "random", Nodes: randomNodes(r, g, 0, g.Layers-1, false)}
}

func randomNodes(r *rand.Rand, g *graph.Graph, lo, hi int, nested bool) []plan.Node {
	var out []plan.Node
	for lo <= hi {
		last := lo + r.IntN(hi-lo+1)
		n := plan.Node{First: lo, Last: last}
		switch whole := nested && n.Last-n.First == hi-lo; {
		case r.IntN(5) == 0: // kept
			lo = last + 1
			continue
		case r.IntN(2) == 0 && !whole:
			n.Segment = true
			if r.IntN(3) > 0 {
				n.Inner = randomNodes(r, g, lo, last, true)
			}
		default:
			o := randomOption(r, g, lo, nested)
			n.Option = &o
		}
		out = append(out, n)
		lo = last + 1
	}
	return out
}

func randomOption(r *rand.Rand, g *graph.Graph, layer int, nested bool) plan.Option {
	sets := [][]string{{"layer"}, {"attn"}, {"core"}, {"mlp"}, {"act"}, {"norm1"}, {"norm2"}, {"attn", "mlp"}, {"core", "mlp"}, {"core", "act"}, {"norm1", "core", "norm2"}, {"norm1", "core", "act"}}
	o := plan.Option{Name: "random"}
	for _, span := range sets[r.IntN(len(sets))] {
		sp, ok := g.Span(layer, span)
		if !ok {
			continue
		}
		reg := plan.Region{Span: span}
		switch k := r.IntN(6); {
		case nested:
		case k == 0:
			reg.Offload = "saved"
		case k == 1 && (span == "layer" || span == "attn" || span == "mlp"): // other parts may take views, which it refuses
			reg.Offload = "inputs"
		case k < 4:
			reg.Cache = randomCache(r, g, layer, sp)
		}
		o.Regions = append(o.Regions, reg)
	}
	return o
}

// randomCache picks ops whose output a policy can keep.
func randomCache(r *rand.Rand, g *graph.Graph, layer int, sp graph.Span) []string {
	whole, _ := g.Span(layer, "layer")
	labels := g.Labels(whole.First, whole.End)
	var out []string
	for i := sp.First; i < sp.End; i++ {
		if r.IntN(4) == 0 && g.Uncachable(i) == "" {
			out = append(out, labels[i-whole.First])
		}
	}
	return out
}

// 200 random plans: every level of both steps is the simulator's to the byte, and gradients are those without
// checkpointing, bit by bit.
func TestRandomPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := []string{"fp32/eager", "bf16/sdpa", "amp-bf16/sdpa", "bf16/math"}
	count := 0
	for i, arch := range []string{"gpt2", "llama", "bert", "vit", "gpt2", "llama", "bert", "vit"} {
		dtype, attention, _ := strings.Cut(kinds[(i+i/4)%len(kinds)], "/")
		p := program(t, fmt.Sprintf(models[arch], dtype, attention))
		base := runPlan(t, p, namedPlan(t, p, "none"))
		for range 25 {
			pl := randomPlan(r, p.Graph)
			if err := pl.Validate(p.Graph.Layers); err != nil {
				t.Fatal(err)
			}
			count++
			if d := cmp.Diff(base, runPlan(t, p, pl)); d != "" {
				t.Errorf("%s %s %s: plan %+v changes gradients:\n%s", arch, dtype, attention, pl.Nodes, d)
			}
			if t.Failed() {
				t.Fatalf("%s %s %s: plan %s", arch, dtype, attention, describe(pl.Nodes))
			}
		}
	}
	if count != 200 {
		t.Errorf("%d plans were run, want 200", count)
	}
}

// describe prints a plan on one line.
func describe(ns []plan.Node) string {
	var b strings.Builder
	for _, n := range ns {
		fmt.Fprintf(&b, "[%d-%d", n.First, n.Last)
		if n.Segment {
			b.WriteString(" segment " + describe(n.Inner))
		}
		if n.Option != nil {
			fmt.Fprintf(&b, " %+v", n.Option.Regions)
		}
		b.WriteString("]")
	}
	return b.String()
}
