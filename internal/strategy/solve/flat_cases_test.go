package solve

import (
	"context"
	"math"
	"testing"
)

// flatInputs are layers with options (saved, transient at backward, extra time) and gradients that grow.
type flatInputs struct {
	Menus  [][][3]int64 `json:"menus_saved_transient_extra"`
	Growth []int64      `json:"gradient_growth"`
	Head   [][2]int64   `json:"head_options_transient_extra"`
	Memory int64        `json:"memory"`
}

func (in *flatInputs) problem() *Problem {
	p := &Problem{Budget: in.Memory}
	for i, menu := range in.Menus {
		b := Block{Grad: in.Growth[i]}
		for _, o := range menu {
			b.Choices = append(b.Choices, Choice{Save: o[0], Backward: o[1], Time: o[2]})
		}
		p.Blocks = append(p.Blocks, b)
	}
	var head Block // a head with a menu is a last block that keeps nothing
	for _, h := range in.Head {
		head.Choices = append(head.Choices, Choice{Backward: h[0], Time: h[1]})
	}
	if len(in.Head) > 0 {
		p.Blocks = append(p.Blocks, head)
	}
	return p
}

// Kind flat_menu: the whole frontier of a few layers, from full enumeration.
func TestCasesFlatMenu(t *testing.T) {
	type expected struct {
		Frontier [][2]int64 `json:"pareto_frontier"`
	}
	casesOf(t, "flat_menu", func(t *testing.T, in flatInputs, want expected) {
		p := in.problem()
		f, err := SolveFrontier(context.Background(), p, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Points) != len(want.Frontier) {
			t.Fatalf("%d points, want %d", len(f.Points), len(want.Frontier))
		}
		for k, w := range want.Frontier {
			if f.Points[k].Peak != w[0] || f.Points[k].Time != w[1] {
				t.Errorf("point %d: got (%d, %d), want %v", k, f.Points[k].Peak, f.Points[k].Time, w)
			}
			p.Budget = w[0]
			s, err := SolveFlat(context.Background(), p)
			if err != nil || s.Time != w[1] || s.Peak != w[0] {
				t.Errorf("budget %d: got %+v, %v, want time %d", w[0], s, err, w[1])
			}
		}
	})
}

// Kind flat_menu_budget: 12 to 80 layers with 7 options under one budget; the optimum agrees with HiGHS at gap 0.
func TestCasesFlatMenuBudget(t *testing.T) {
	type expected struct {
		Optimum int64 `json:"optimum"`
	}
	casesOf(t, "flat_menu_budget", func(t *testing.T, in flatInputs, want expected) {
		s, err := SolveFlat(context.Background(), in.problem())
		if err != nil || s.Time != want.Optimum || s.Peak > in.Memory || s.Status != Optimal {
			t.Fatalf("got %+v, %v, want time %d", s, err, want.Optimum)
		}
	})
}

// Kind knapsack_save_set: the 0/1 knapsack of peers, which set of tensors to save under a sum of bytes. It is the flat
// problem whose only row that binds is the head's: saving costs bytes, dropping costs the tensor's run time. Sizes
// are rounded up to the case's quantum; peers that round to nearest, or pack by density, answer otherwise.
func TestCasesKnapsack(t *testing.T) {
	type inputs struct {
		Memory   []float64 `json:"memory"`
		Runtime  []float64 `json:"runtime"`
		Capacity float64   `json:"capacity"`
		Quantum  float64   `json:"quantum"`
	}
	type expected struct {
		Optimum float64 `json:"optimum"`
		Units   int64   `json:"capacity_units"`
	}
	casesOf(t, "knapsack_save_set", func(t *testing.T, in inputs, want expected) {
		p := &Problem{Budget: want.Units}
		var all int64
		for i, m := range in.Memory {
			units := int64(math.Ceil(m/in.Quantum - 1e-9))
			runtime := int64(math.Round(in.Runtime[i] * 1000))
			all += runtime
			p.Blocks = append(p.Blocks, Block{Choices: []Choice{{Save: units, Backward: units}, {Time: runtime}}})
		}
		s, err := SolveFlat(context.Background(), p)
		if saved := all - int64(math.Round(want.Optimum*1000)); err != nil || s.Time != saved {
			t.Fatalf("got %+v, %v, want %d dropped", s, err, saved)
		}
	})
}
