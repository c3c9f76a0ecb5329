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
	// ComputeCapability is the SM version of a card by NVIDIA.
	ComputeCapability Capability
	// GFX is the instruction set of a card by AMD, such as gfx942; empty for one by NVIDIA.
	GFX string
	// SMs is the number of streaming multiprocessors, or of AMD's compute units.
	SMs int
	// Source names the documents behind the peaks, the bandwidth and the number of SMs.
	Source string
}

// Peaks are peak rates in FLOP/s by type; 0 where the card has no unit for it. BF16, FP16 and TF32 are tensor-core
// rates with fp32 accumulation, as PyTorch uses them (a P100's fp16 cores accumulate in fp16, so it has none); FP32 is
// that of the ordinary cores.
type Peaks struct {
	FP32, TF32, BF16, FP16 int64
}

// Capability is a CUDA compute capability, such as 9.0.
type Capability struct {
	Major, Minor int
}

// Architecture is the compute capability as CUDA writes it ("9.0"), or AMD's instruction set.
func (s *Sheet) Architecture() string {
	if s.GFX != "" {
		return s.GFX
	}
	return s.ComputeCapability.String()
}

// RunsFlash is true if flash-attention 2 and the flash kernel of PyTorch's scaled_dot_product_attention run on the card: from compute
// capability 8.0 on, or on an AMD Instinct.
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (check_flash_attention_hardware_support); README of flash-attn.
func (s *Sheet) RunsFlash() bool { return s.GFX != "" || s.ComputeCapability.Major >= 8 }

// Peak is the peak rate in FLOP/s of an op on elements of type d. Matrix products in fp32 run on the ordinary cores,
// since PyTorch does not use TF32 for them unless told to (torch.backends.cuda.matmul.allow_tf32 is false by default).
// A card without units for bf16 or fp16 computes them in fp32. Everything that is not a matrix product runs on the ordinary cores
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
