package interpreter

import (
	"fmt"
	"testing"

	"ckptplan/internal/exec/host"
	"ckptplan/internal/model/dtype"
)

// BenchmarkStep is a training step of a GPT-2 on the reference device.
func BenchmarkStep(b *testing.B) {
	for _, precision := range []dtype.Precision{"fp32", "bf16", "amp-fp16"} {
		b.Run(string(precision), func(b *testing.B) {
			p := program(b, fmt.Sprintf("{L: 2, S: 64, H: 128, B: 2, heads: 4, vocab: 1000, dtype: %s}", precision))
			s := lowered(b, p, "full")
			e := newEngine(b.Context(), Options{Device: host.NewDevice(0), Engine: "host", Schedule: s})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.step(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
