package solve

import "testing"

// Kind graph_milp: Checkmate's linear graphs, whose optima a MILP over all schedules of the graph found. Forward node i
// reads node i−1, the node after the last is the loss, and backward node 2n−i reads forward node i and the backward node
// before it; every node costs 1 and takes 1. As a chain: a stage's saved set is its output, and its backward makes one
// gradient beside that and the incoming one.
//
// A chain's backward also holds the stage's input, as PyTorch's does; the graph's does not. Below n+2 units, where that
// input is what the MILP drops, the chain's optimum is above the graph's or there is none; it is never below.
func TestCasesGraph(t *testing.T) {
	type inputs struct {
		Forward int `json:"forward_nodes"`
	}
	type expected struct {
		Points [][2]int64 `json:"budget_and_total_cost"`
		Least  int64      `json:"no_recompute_cost"`
	}
	casesOf(t, "graph_milp", func(t *testing.T, in inputs, want expected) {
		c := &Chain{Loss: []Choice{{Forward: 1, Backward: 1, Time: 1}}}
		for range in.Forward {
			c.Stages = append(c.Stages, Stage{
				Type: 1, Output: 1, Gradient: 1,
				Options: []StageOption{{Saved: 1, Forward: 1, Backward: 1, BackwardOverhead: 1}},
			})
		}
		for _, p := range want.Points {
			c.Budget = p[0]
			got := nestedTime(t, c)
			if p[0] > int64(in.Forward)+1 && got != p[1] {
				t.Errorf("budget %d: cost %d, want %d", p[0], got, p[1])
			}
			if got >= 0 && got < p[1] {
				t.Errorf("budget %d: cost %d, below the optimum of all schedules, %d", p[0], got, p[1])
			}
		}
		c.Budget = 1 << 20
		if got := nestedTime(t, c); got != want.Least {
			t.Errorf("no limit: cost %d, want %d", got, want.Least)
		}
	})
}
