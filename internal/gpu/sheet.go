// Package gpu holds what ckptplan knows about GPUs. A Sheet is a card's data sheet: the memory that PyTorch sees on it
// and its peak rates, from which OpTime makes a roofline time and Reserve the memory that is not tensors. Discover
// finds the devices of this machine through the CUDA driver, which is loaded at run time; without one it returns
// ErrNoDriver, and the rest of the package works.
package gpu

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/unit"
)

// Sheet is one card's data sheet.
type Sheet struct {
	Name string
	// Aliases are other names of the card, the CUDA driver's among them.
	Aliases []string
	// SoldAs is the decimal size on the box. It is not the memory that can be used.
	SoldAs unit.Bytes
	// TotalBytes is the memory that PyTorch sees: the "total capacity" of its out-of-memory report, before context,
	// other processes and display. Where reports differ it is the least of them.
	TotalBytes unit.Bytes
	// MemorySource says where TotalBytes is from.
	MemorySource string
	// Peaks are dense, in FLOP/s, without sparsity.
	Peaks Peaks
	// Bandwidth is that of the device memory, in bytes/s.
	Bandwidth int64
	// HostLink is the bandwidth between host and device, in bytes/s one way: PCIe ×16 after line coding, or NVLink-C2C.
	HostLink int64
	// ComputeCapability is the SM version.
	ComputeCapability Capability
	// SMs is the number of streaming multiprocessors.
	SMs int
	// Source names the documents behind the peaks, the bandwidth and the number of SMs.
	Source string
}

// Peaks are peak rates in FLOP/s by type; 0 where the card has no unit for it. BF16, FP16 and TF32 are tensor-core
// rates with fp32 accumulation, as PyTorch uses them; FP32 is that of the ordinary cores.
type Peaks struct {
	FP32, TF32, BF16, FP16 int64
}

// Capability is a CUDA compute capability, such as 9.0.
type Capability struct {
	Major, Minor int
}

// Peak is the peak rate in FLOP/s of an op on elements of type d. Matrix products in fp32 run on the ordinary cores,
// since PyTorch does not use TF32 for them unless told to (torch.backends.cuda.matmul.allow_tf32 is false by default).
// A card without bf16 units computes bf16 in fp32. Everything that is not a matrix product runs on the ordinary cores
// in fp32, whatever the type of its elements.
func (s *Sheet) Peak(d dtype.DType, matmul bool) int64 {
	peak := s.Peaks.FP32
	if !matmul {
		return peak
	}
	switch d {
	case dtype.BF16:
		return max(peak, s.Peaks.BF16)
	case dtype.F16:
		return max(peak, s.Peaks.FP16)
	}
	return peak
}
