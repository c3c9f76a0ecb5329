package solve

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
)

// The gain is the difference of the recorded optima with and without bridges, which another program found.
func TestBridgeGainOfCases(t *testing.T) {
	type expected struct {
		Points []struct {
			Memory     int64  `json:"memory"`
			Persistent *int64 `json:"persistent_optimum"`
			Extended   *int64 `json:"extended_optimum"`
		} `json:"points"`
	}
	gains := 0
	casesOf(t, "chain", func(t *testing.T, in chainInputs, want expected) {
		c := in.chain(1)
		for _, p := range want.Points {
			if p.Persistent == nil || p.Extended == nil {
				continue
			}
			c.Budget = p.Memory
			s, err := SolveNested(context.Background(), c)
			if err != nil {
				t.Fatal(err)
			}
			s.Limit = p.Memory
			gain, known, err := BridgeGain(context.Background(), c, s)
			if want := *p.Persistent - *p.Extended; err != nil || !known || gain != want {
				t.Errorf("memory %d: %d %v %v, want %d", p.Memory, gain, known, err, want)
			}
			if gain > 0 {
				gains++
			}
		}
	})
	if gains == 0 {
		t.Error("no case gains from bridges")
	}
}

// A window changes no answer: with several options, early stops and limits on forwards, too.
func TestBridgeGainEqualsWholeSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for n := range 300 {
		c := randomChain(r, n%2 == 0, n%3 == 0)
		if n%4 > 0 {
			richer(r, c)
			stopping(r, c)
		}
		for i := range c.Stages {
			for k := range c.Stages[i].Options {
				c.Stages[i].Options[k].Bridge = r.IntN(3) > 0
			}
		}
		least, err := MinNestedMemory(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		c.Budget = least + r.Int64N(60)
		without, err := SolveNested(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		without.Limit = c.Budget
		d := *c
		d.Bridges = true
		with, err := SolveNested(context.Background(), &d)
		if err != nil {
			t.Fatal(err)
		}
		gain, known, err := BridgeGain(context.Background(), c, without)
		if err != nil || !known || gain != without.Time-with.Time {
			t.Fatalf("chain %d: gain %d %v %v, want %d", n, gain, known, err, without.Time-with.Time)
		}
	}
}

func TestBridgeGainIsNotAlwaysKnown(t *testing.T) {
	c := randomChain(rand.New(rand.NewPCG(1, 2)), true, false)
	c.Budget = 1000
	s, err := SolveNested(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	w := newNestedSolver(c, false)
	w.window = newWindow(w, s.Time, 0)
	if err := w.fill(context.Background()); !errors.Is(err, errTooMuchWork) {
		t.Error(err)
	}
	s.Steps = 1 << 40
	if gain, known, err := BridgeGain(context.Background(), c, s); gain != 0 || known || err != nil {
		t.Error(gain, known, err)
	}
	for i := range c.Stages {
		c.Stages[i].Options[0].Bridge = false
	}
	if gain, known, err := BridgeGain(context.Background(), c, s); gain != 0 || !known || err != nil {
		t.Error(gain, known, err)
	}
}
