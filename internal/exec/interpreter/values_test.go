package interpreter

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"ckptplan/internal/exec"
	"ckptplan/internal/exec/host"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/thorough"
)

// started is an engine with its weights and data drawn.
func started(t testing.TB, s *memory.Schedule, seed int64) *engine {
	t.Helper()
	e := newEngine(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: s, Seed: seed})
	e.initialise()
	return e
}

// lossOf runs the forward pass alone.
func lossOf(e *engine) float64 {
	e.offset = 0
	e.forward()
	for _, n := range e.nodes {
		n.release()
	}
	e.top.leave()
	return e.loss
}

// For every parameter p with gradient g, the loss along g/|g| must rise by |g|: (L(p+εg/|g|) − L(p−εg/|g|)) / 2ε. The
// dropout masks are those of the seed in all runs.
func TestFiniteDifferences(t *testing.T) {
	for _, arch := range archs[:8] {
		for _, attention := range []string{"eager", "sdpa", "math"} {
			t.Run(arch+"/"+attention, func(t *testing.T) {
				if !thorough.On && attention == "math" {
					t.Skip("go test -tags thorough runs it")
				}
				p := program(t, strings.Replace(archDoc(arch, "fp32", attention), "L: 4", "L: 2", 1))
				s := lowered(t, p, "full")
				e := started(t, s, 11)
				e.forward()
				e.backward()
				for i, g := range e.grads {
					if g == nil {
						t.Errorf("%s has no gradient", p.Graph.Params[i].Name)
						continue
					}
					dir := append([]float32(nil), g.reals()...)
					norm := math.Sqrt(dot(dir, dir))
					if norm < 1e-4 { // a key's bias has no gradient: softmax does not see it
						continue
					}
					w := e.param(i)
					was := append([]float32(nil), w.reals()...)
					at := func(eps float64) float64 {
						v := make([]float32, len(was))
						for k := range v {
							v[k] = was[k] + float32(eps*float64(dir[k])/norm)
						}
						w.buf.set(v)
						return lossOf(e)
					}
					// Error of the fourth-order difference: rounding of the loss, 1e-7/ε, and the fifth derivative, ε⁴.
					const eps = 0.01
					rise := (8*(at(eps)-at(-eps)) - (at(2*eps) - at(-2*eps))) / (12 * eps)
					w.buf.set(was)
					if math.Abs(rise-norm) > 0.02*norm+2e-4 {
						t.Errorf("%s: the loss rises by %.6f along a gradient of norm %.6f", p.Graph.Params[i].Name, rise, norm)
					}
				}
			})
		}
	}
}

// The streaming kernels and attention with a tensor of scores are the same function.
func TestAttentionAgrees(t *testing.T) {
	for _, arch := range archs[:8] {
		var want []exec.Gradient
		for _, attention := range []string{"eager", "math", "sdpa"} {
			doc := fmt.Sprintf("{arch: %s, L: 2, H: 32, heads: 4, S: 20, B: 2, vocab: 30, dtype: fp32, attention: %s, dropout: 0}", arch, attention)
			if arch == "vit" {
				doc = fmt.Sprintf("{arch: vit, L: 2, H: 32, heads: 4, S: 17, B: 2, labels: 5, image: {size: 16, patch: 4}, dtype: fp32, attention: %s, dropout: 0}", attention)
			}
			p := program(t, doc)
			e := started(t, lowered(t, p, "none"), 2)
			e.forward()
			e.backward()
			got := append(e.gradients(), exec.Gradient{Name: "loss", Norm: e.loss})
			if want == nil {
				want = got
				continue
			}
			for i, g := range got {
				if g.Name != want[i].Name || math.Abs(g.Norm-want[i].Norm) > 1e-5*(1+want[i].Norm) || math.Abs(g.SignedSum-want[i].SignedSum) > 1e-4*(1+want[i].Norm) {
					t.Fatalf("%s %s: %+v, eager %+v", arch, attention, g, want[i])
				}
			}
		}
	}
}

// A model learns its one batch, in every precision and with every optimizer.
func TestLearns(t *testing.T) {
	for _, optimizer := range []string{"adamw", "adamw-loop", "adamw-fused"} {
		for _, dtype := range []string{"fp32", "amp-bf16"} {
			if !thorough.On && dtype == "fp32" {
				continue
			}
			p := program(t, fmt.Sprintf("{arch: gpt2, L: 2, H: 32, heads: 4, S: 8, B: 2, vocab: 30, max_positions: 8, dtype: %s, dropout: 0, train: {optimizer: %s}}", dtype, optimizer))
			e := newEngine(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: lowered(t, p, "full"), Seed: 1})
			var first float64
			for i := range 30 {
				if _, err := e.step(nil); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = e.loss
				}
			}
			if e.loss > first/4 {
				t.Errorf("%s %s: the loss went from %.3f to %.3f in 30 steps", optimizer, dtype, first, e.loss)
			}
		}
	}
}

// Everything that a step took it gives back: what stays is weights, inputs and optimizer state.
func TestGivesBack(t *testing.T) {
	p := program(t, fmt.Sprintf(models["llama"], "bf16", "sdpa"))
	e := newEngine(context.Background(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: lowered(t, p, "nested-2"), Seed: 1})
	for range 3 {
		if _, err := e.step(nil); err != nil {
			t.Fatal(err)
		}
	}
	var want int64
	for _, s := range p.Graph.Storages {
		if s.Born == graph.None {
			want += s.Bytes
		}
	}
	for _, q := range p.Graph.Params { // exp_avg, exp_avg_sq and a step count of 4 bytes
		want += 2*q.Bytes + 4
	}
	if used := int64(e.used); used != want || e.onHost != 0 {
		t.Errorf("%d bytes stay, want %d; %d on the host, want 0", used, want, e.onHost)
	}
}

func dot(x, y []float32) float64 {
	s := 0.0
	for i, v := range x {
		s += float64(v) * float64(y[i])
	}
	return s
}
