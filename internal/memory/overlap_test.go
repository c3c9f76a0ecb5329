package memory

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
)

// TestOffloadWindow: copies on their own stream hide behind the blocks that follow. Against the synchronous form, the
// same bytes are on the host before backward, the device holds at most window + 1 layers more, the step is no longer,
// and with a link that is never the bottleneck nothing of the transfer shows.
func TestOffloadWindow(t *testing.T) {
	card, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.LoadPreset("gpt-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := Compile(g)
	run := func(sheet *gpu.Sheet, window int) *Timeline {
		o := plan.Option{Name: "offload", Regions: []plan.Region{{Span: "layer", Offload: "saved", Window: window}}}
		tl, err := Judge(p, &plan.Plan{Nodes: []plan.Node{{First: 0, Last: 11, Option: &o}}}, sheet)
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	keep, err := Judge(p, &plan.Plan{}, card)
	if err != nil {
		t.Fatal(err)
	}
	sync := run(card, 0)
	layer := sync.Second.HostPeak / 12
	if want := sync.Second.HostPeak; keep.Second.BeforeBackward-sync.Second.BeforeBackward > want {
		t.Errorf("%d bytes left the device, %d are on the host", keep.Second.BeforeBackward-sync.Second.BeforeBackward, want)
	}
	for _, w := range []int{1, 2, 4} {
		tl := run(card, w)
		if tl.Second.HostPeak != sync.Second.HostPeak || tl.Second.BeforeBackward != sync.Second.BeforeBackward {
			t.Errorf("window %d: host %d, before backward %d; synchronous %d, %d", w, tl.Second.HostPeak, tl.Second.BeforeBackward, sync.Second.HostPeak, sync.Second.BeforeBackward)
		}
		if most := sync.Second.Peak[Backward].Bytes + int64(w+1)*layer; tl.Second.Peak[Backward].Bytes > most {
			t.Errorf("window %d: backward peak %d over %d", w, tl.Second.Peak[Backward].Bytes, most)
		}
		if tl.Times.Step() > sync.Times.Step() {
			t.Errorf("window %d: step %d, synchronous %d", w, tl.Times.Step(), sync.Times.Step())
		}
		t.Logf("window %d: exposed %d of %d ns", w, tl.Times.Transfer, sync.Times.Transfer)
	}
	fast := *card
	fast.HostLink = 1e15
	if x := run(&fast, 1).Times.Transfer; x != 0 {
		t.Errorf("a link without limits leaves %d ns exposed", x)
	}
}
