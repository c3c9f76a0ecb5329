package memory

import (
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/groundtruth"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/plan"
)

// BenchmarkEstimate405B is what estimate does for one strategy of a model of 126 layers: build, compile, lower and
// walk two steps with every layer checkpointed, priced on a card.
func BenchmarkEstimate405B(b *testing.B) {
	s, err := model.LoadPreset("llama-3.1-405b")
	if err != nil {
		b.Fatal(err)
	}
	sheet, err := gpu.Lookup("H100-80GB")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		g, err := model.Build(s, build.Options{})
		if err != nil {
			b.Fatal(err)
		}
		pl, err := plan.Named("full", g.Layers)
		if err != nil {
			b.Fatal(err)
		}
		tl, err := Judge(Compile(g), pl, sheet)
		if err != nil {
			b.Fatal(err)
		}
		events = 2 * len(tl.schedule.Program.tape.events)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/backward-event")
}

// BenchmarkSimulate405B walks two steps of a schedule that is ready: what a search pays for another plan.
func BenchmarkSimulate405B(b *testing.B) {
	s, err := model.LoadPreset("llama-3.1-405b")
	if err != nil {
		b.Fatal(err)
	}
	g, err := model.Build(s, build.Options{})
	if err != nil {
		b.Fatal(err)
	}
	pl, err := plan.Named("sqrt", g.Layers)
	if err != nil {
		b.Fatal(err)
	}
	sch, err := Lower(Compile(g), pl)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Simulate(sch, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGroundTruth simulates the 190 measured training steps from their configs.
func BenchmarkGroundTruth(b *testing.B) {
	cases := groundtruth.Load(b, groundtruth.Given)
	for b.Loop() {
		for i := range cases {
			if _, err := simulate(cases[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
