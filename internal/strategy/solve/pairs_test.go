package solve

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Equal blocks whose options are sums of a few kept products, so that many plans tie: the search that leaves out superfluous
// pairs finds the time that trying every plan finds.
func TestSuperfluousPairsLoseNoPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := func(name string) int64 { return int64(rapid.IntRange(0, 6).Draw(t, name)) }
		block := Block{Grad: small("grad")}
		for range rapid.IntRange(2, 5).Draw(t, "options") {
			save := small("save")
			c := Choice{Save: save, Linger: small("linger") / 4, Forward: save + small("forward"), Backward: 8 + small("backward")/3, Time: max(0, 12-2*save+small("time")/4)}
			if rapid.Bool().Draw(t, "holds") {
				c.Holds = 1
			}
			block.Choices = append(block.Choices, c)
		}
		p := &Problem{Shared: []int64{small("shared")}, HeadForward: small("head"), HeadBackward: small("head"), HeadGrad: small("head")}
		for range rapid.IntRange(2, 6).Draw(t, "blocks") {
			p.Blocks = append(p.Blocks, block)
		}
		p.Budget = int64(rapid.IntRange(8, 60).Draw(t, "budget"))
		fastest := int64(math.MaxInt64)
		choice := make([]int, len(p.Blocks))
		for at := 0; at < len(choice); {
			if peak, time := p.Evaluate(choice); peak <= p.Budget {
				fastest = min(fastest, time)
			}
			for at = 0; at < len(choice); at++ {
				if choice[at]++; choice[at] < len(block.Choices) {
					break
				}
				choice[at] = 0
			}
		}
		s := newSearch(newGraph(p)) // SolveFlat's narrow run would find plans of its own
		s.pairs = s.g.superfluous()
		if err := s.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		switch found := s.take(p); {
		case found == nil && fastest == math.MaxInt64:
		case found == nil || found.Time != fastest || found.Peak > p.Budget:
			t.Fatalf("%+v: the fastest of all plans takes %d", found, fastest)
		}
	})
}
