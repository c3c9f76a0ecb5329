package strategy

import (
	"context"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/unit"
)

// TestOffload: with a link fast enough, offloading is taken; under a cap the plan keeps to it, is within the budget
// and no faster than without the cap.
func TestOffload(t *testing.T) {
	card, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	fast := *card
	fast.HostLink = 900e9 // an NVLink-C2C class link
	p := program(t, "gpt-1.3b", nil)
	req := Request{Budget: 40e9, Reserve: -1, Sheet: &fast, Class: "flat"}
	plain, err := Optimize(context.Background(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	req.Offload = true
	free, err := Optimize(context.Background(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	host := free.Timeline.Second.HostPeak
	if free.Timeline.Times.Step() > plain.Timeline.Times.Step() || host == 0 {
		t.Fatalf("offload allowed: step %d against %d, host %d", free.Timeline.Times.Step(), plain.Timeline.Times.Step(), host)
	}
	if free.Timeline.Peak.Bytes != free.Solution.Peak {
		t.Errorf("believed %d, simulated %d", free.Solution.Peak, free.Timeline.Peak.Bytes)
	}
	req.HostMemory = unit.Bytes(host / 2)
	capped, err := Optimize(context.Background(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	if h := capped.Timeline.Second.HostPeak; h > host/2 {
		t.Errorf("host memory %d over the cap %d", h, host/2)
	}
	if capped.Timeline.Times.Step() < free.Timeline.Times.Step() || unit.Bytes(capped.Timeline.Peak.Bytes) > capped.TensorBudget {
		t.Errorf("capped: step %d, free %d, peak %d", capped.Timeline.Times.Step(), free.Timeline.Times.Step(), capped.Timeline.Peak.Bytes)
	}
	for _, r := range []*Result{plain, free, capped} {
		for _, n := range r.Plan.Nodes {
			t.Logf("%d-%d %s", n.First, n.Last, n.Option.Name)
		}
		t.Logf("step %v, host %v, %v", unit.Duration(r.Timeline.Times.Step()), unit.Bytes(r.Timeline.Second.HostPeak), r.Solution.Status)
	}
}

// TestLeanestUnderCap: under a cap on host memory the leanest plan keeps to it, and its time is that of the simulator.
func TestLeanestUnderCap(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, "gpt2", nil)
	for _, limit := range []unit.Bytes{0, 1e6, 300e6} {
		res, err := Leanest(context.Background(), p, Request{Sheet: sheet, Class: "flat", Offload: true, HostMemory: limit})
		if err != nil {
			t.Fatal(err)
		}
		if h := res.Timeline.Second.HostPeak; limit > 0 && h > int64(limit) {
			t.Errorf("cap %v: %v in host memory", limit, unit.Bytes(h))
		}
		if res.Solution.Time != res.Timeline.Times.Extra() {
			t.Errorf("cap %v: %d ns, simulated %d", limit, res.Solution.Time, res.Timeline.Times.Extra())
		}
	}
}

// TestHighestRateOfHostMemory: terabytes at the highest price that is tried make a problem of whole numbers.
func TestHighestRateOfHostMemory(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, "gpt2", func(s *spec.Spec) { s.B = 100_000 })
	sp, err := graphs{"none": p}.space(context.Background(), Request{Sheet: sheet, Offload: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	prob := sp.Problem()
	for i := range prob.Blocks {
		for k := range prob.Blocks[i].Choices {
			prob.Blocks[i].Choices[k].Time += sp.hostMiB(k, i) * sp.highestRate(sp.Problem())
		}
	}
	if err := prob.Validate(); err != nil {
		t.Error(err)
	}
}

// TestOffloadWindow: with copies on their own stream the plan is within the budget when simulated, keeps to the cap,
// and is never slower than without offloading.
func TestOffloadWindow(t *testing.T) {
	card, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []int64{32e9, 450e9} {
		fast := *card
		fast.HostLink = link
		p := program(t, "gpt-1.3b", nil)
		req := Request{Budget: 40e9, Reserve: -1, Sheet: &fast, Class: "flat"}
		plain, err := Optimize(context.Background(), p, req)
		if err != nil {
			t.Fatal(err)
		}
		req.Offload, req.OffloadWindow = true, 2
		res, err := Optimize(context.Background(), p, req)
		if err != nil {
			t.Fatal(err)
		}
		if unit.Bytes(res.Timeline.Peak.Bytes) > res.TensorBudget || res.Timeline.Times.Step() > plain.Timeline.Times.Step() {
			t.Errorf("link %d: peak %d of %d, step %d, plain %d", link, res.Timeline.Peak.Bytes, res.TensorBudget, res.Timeline.Times.Step(), plain.Timeline.Times.Step())
		}
		t.Logf("link %d GB/s: %v, without offloading %v; exposed %v, host %v", link/1e9, unit.Duration(res.Timeline.Times.Step()), unit.Duration(plain.Timeline.Times.Step()),
			unit.Duration(res.Timeline.Times.Transfer), unit.Bytes(res.Timeline.Second.HostPeak))
		req.HostMemory = 1e9
		capped, err := Optimize(context.Background(), p, req)
		if err != nil {
			t.Fatal(err)
		}
		if capped.Timeline.Second.HostPeak > 1e9 {
			t.Errorf("link %d: host memory %d over the cap", link, capped.Timeline.Second.HostPeak)
		}
	}
}
