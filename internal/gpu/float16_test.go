package gpu

import (
	"math"
	"testing"

	"ckptplan/internal/model/dtype"
)

func TestRounding(t *testing.T) {
	for _, tt := range []struct {
		dt      dtype.DType
		x, want float32
	}{
		{dtype.BF16, 1 + 1.0/256, 1},                  // halfway, to even
		{dtype.BF16, 1 + 3.0/256, 1 + 4.0/256},        // halfway, to even
		{dtype.BF16, 1 + 1.0/256 + 1e-6, 1 + 1.0/128}, // above halfway
		{dtype.BF16, -3.14159, -3.140625},
		{dtype.BF16, float32(math.Inf(1)), float32(math.Inf(1))},
		{dtype.F16, 1 + 1.0/2048, 1},
		{dtype.F16, 1 + 3.0/2048, 1 + 4.0/2048},
		{dtype.F16, 65519, 65504},
		{dtype.F16, 65520, float32(math.Inf(1))},
		{dtype.F16, 1.0 / (1 << 24), 1.0 / (1 << 24)}, // the smallest subnormal
		{dtype.F16, 1.0 / (1 << 25), 0},
		{dtype.F16, -0.1, -0.0999755859375},
		{dtype.F32, 0.1, 0.1},
	} {
		if got := Round(tt.dt, tt.x); got != tt.want {
			t.Errorf("%v in %s is %v, want %v", tt.x, tt.dt, got, tt.want)
		}
	}
	if x := Round(dtype.BF16, float32(math.NaN())); x == x {
		t.Errorf("NaN in bf16 is %v", x)
	}
}

// Every number of 16 bits comes back from float32 as it was.
func TestHalvesAreExact(t *testing.T) {
	for b := range 1 << 16 {
		for _, dt := range []dtype.DType{dtype.BF16, dtype.F16} {
			h := []uint16{uint16(b)}
			if x := decode(dt, h, make([]float32, 1)); x[0] == x[0] && encode(dt, x, make([]uint16, 1))[0] != h[0] {
				t.Fatalf("%s %04x is %v and comes back as %04x", dt, b, x[0], encode(dt, x, make([]uint16, 1))[0])
			}
		}
	}
}
