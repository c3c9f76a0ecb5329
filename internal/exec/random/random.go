// Package random draws the numbers of weights, data and dropout. Number n of a stream depends only on the seed, the stream and
// n, so that a recompute and another device draw the same.
package random

import "math"

// philox is Philox4x32-10, the counter-based generator of PyTorch's CUDA kernels: four random words of a key and a
// counter.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 4.
func philox(key uint64, counter [2]uint64) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	c := [4]uint32{uint32(counter[0]), uint32(counter[0] >> 32), uint32(counter[1]), uint32(counter[1] >> 32)}
	for range 10 {
		p0, p1 := uint64(0xD2511F53)*uint64(c[0]), uint64(0xCD9E8D57)*uint64(c[2])
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k0, uint32(p1), uint32(p0>>32) ^ c[3] ^ k1, uint32(p0)}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c
}

// Stream gives the numbers of one stream of a key from a counter on; number n does not depend on the others.
type Stream struct {
	Key, Offset, Stream uint64
}

// Word is number n, 32 random bits.
func (r Stream) Word(n int64) uint32 {
	return philox(r.Key, [2]uint64{r.Offset + uint64(n)/4, r.Stream})[n%4]
}

// unit32 is a word as a number in (0, 1).
func unit32(w uint32) float64 { return (float64(w) + 0.5) / (1 << 32) }

// Normals are the first n numbers of the standard normal distribution, by Box and Muller's transform of pairs.
func (r Stream) Normals(n int) []float64 {
	out := make([]float64, 0, n+3)
	for k := uint64(0); len(out) < n; k++ {
		w := philox(r.Key, [2]uint64{r.Offset + k, r.Stream})
		for i := 0; i < 4; i += 2 {
			radius := math.Sqrt(-2 * math.Log(unit32(w[i])))
			sin, cos := math.Sincos(2 * math.Pi * unit32(w[i+1]))
			out = append(out, radius*cos, radius*sin)
		}
	}
	return out[:n]
}

// Mask says for the first n elements whether dropout with probability p keeps them.
func (r Stream) Mask(n int, p float64) []bool {
	out := make([]bool, 0, n+3)
	for k := uint64(0); len(out) < n; k++ {
		for _, w := range philox(r.Key, [2]uint64{r.Offset + k, r.Stream}) {
			out = append(out, unit32(w) >= p)
		}
	}
	return out[:n]
}

// Counters is how far n random numbers advance the generator's counter.
func Counters(n int64) uint64 { return (uint64(n) + 3) / 4 }
