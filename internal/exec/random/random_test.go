package random

import (
	"math"
	"testing"
)

// Known answers of Philox4x32-10 from the authors' Random123 library (tests/kat_vectors).
func TestPhilox(t *testing.T) {
	for _, tt := range []struct {
		key     uint64
		counter [2]uint64
		want    [4]uint32
	}{
		{0, [2]uint64{0, 0}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, [2]uint64{math.MaxUint64, math.MaxUint64}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, [2]uint64{0x85a308d3243f6a88, 0x0370734413198a2e}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(tt.key, tt.counter); got != tt.want {
			t.Errorf("philox(%x, %x) = %08x, want %08x", tt.key, tt.counter, got, tt.want)
		}
	}
}

// A million draws: mean and variance of the normals, share of kept elements.
func TestRandom(t *testing.T) {
	const n = 1_000_000
	r := Stream{Key: 5}
	mean, square := 0.0, 0.0
	for _, x := range r.Normals(n) {
		mean += x / n
		square += x * x / n
	}
	if math.Abs(mean) > 5e-3 || math.Abs(square-1) > 1e-2 { // 5 standard errors: 1/√n, √(2/n)
		t.Errorf("normals have mean %v and mean square %v", mean, square)
	}
	kept := 0
	for _, k := range r.Mask(n, 0.1) {
		if k {
			kept++
		}
	}
	if math.Abs(float64(kept)/n-0.9) > 1.5e-3 { // 5·√(0.09/n)
		t.Errorf("dropout of 0.1 keeps %d of %d", kept, n)
	}
}
