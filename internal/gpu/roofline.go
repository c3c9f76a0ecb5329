package gpu

import (
	"math"
	"math/bits"

	"ckptplan/internal/model/dtype"
)

// What a kernel attains of the data sheet's peaks, in thousandths, and the least time it takes.
const (
	// matmulAttained is the share of the peak that a matrix product attains. PyTorch's own RuntimeEstimator and
	// Inductor's scheduler take 0.75 ("we can expect to achieve 75% of theoretical peak flops"). The best shape of a
	// search attains 0.86 on an A100 SXM, 0.82 on an A100 PCIe and 0.80 on an H100 SXM (table of maximum achievable
	// matmul FLOPS in Bekman's Machine Learning Engineering Open Book); the shapes of a model are not the best ones.
	matmulAttained = 750
	// bandwidthAttained is the share of the memory bandwidth that an elementwise or reduction kernel attains. Refresh,
	// read-write turnarounds and, on cards without HBM, ECC cost 8 to 12 % even of a long copy; rows that do not fill
	// a whole wave of blocks cost the rest.
	bandwidthAttained = 800
	// linkAttained is the share of the host link that a copy from or to pinned memory attains: packet headers cost
	// about a tenth of PCIe at 256 B of payload, flow control the rest (a gen 4 ×16 link of 31.5 GB/s moves 25 GB/s).
	linkAttained = 800
	// launchNanoseconds is the least time between the ends of two kernels of one stream in eager PyTorch while the CPU
	// runs ahead: launch latency on the device plus the ramp and tail of a grid, 2 to 4 µs on all cards since Volta.
	launchNanoseconds = 3000
)

// OpTime is the time in nanoseconds of an op that does flops floating-point operations on elements of type d and moves
// bytes between the chip and its memory: a roofline, max(flops / attained peak, bytes / attained bandwidth), but not
// less than one kernel launch. matmul is true for matrix products and attention, which run on tensor cores. An op with no
// FLOPs and no bytes is a view and takes no time.
//
// The model has no waves of blocks, no cache (a tensor that was just written may be read from L2), no clocks under a
// power limit, and treats an op of several kernels as one.
func (s *Sheet) OpTime(flops, bytes int64, d dtype.DType, matmul bool) int64 {
	if flops <= 0 && bytes <= 0 {
		return 0
	}
	compute := nanoseconds(flops, attained(s.Peak(d, matmul), matmulAttained))
	memory := nanoseconds(bytes, attained(s.Bandwidth, bandwidthAttained))
	return max(compute, memory, launchNanoseconds)
}

// CopyTime is the time in nanoseconds of a copy of bytes between pinned host memory and the device, in one direction.
func (s *Sheet) CopyTime(bytes int64) int64 {
	if bytes <= 0 {
		return 0
	}
	return max(nanoseconds(bytes, attained(s.HostLink, linkAttained)), launchNanoseconds)
}

// attained is the given thousandths of a rate. Rates are above 10⁹, so the order of the operations costs nothing.
func attained(rate, thousandths int64) int64 { return rate / 1000 * thousandths }

// nanoseconds is work/rate, with rate per second, rounded up. The product with 10⁹ needs more than 64 bits.
func nanoseconds(work, rate int64) int64 {
	if work <= 0 || rate <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(work), 1e9)
	lo, carry := bits.Add64(lo, uint64(rate-1), 0)
	hi += carry
	if hi >= uint64(rate) {
		return math.MaxInt64
	}
	ns, _ := bits.Div64(hi, lo, uint64(rate))
	return int64(min(ns, math.MaxInt64))
}
