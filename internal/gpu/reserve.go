package gpu

import (
	"math/big"
	"strings"

	"ckptplan/internal/unit"
)

// Level says in which of PyTorch's and the driver's numbers a reserve shows.
type Level string

// The levels, from the inside out: each holds those before it.
const (
	LevelAllocated Level = "allocated" // torch.cuda.max_memory_allocated
	LevelReserved  Level = "reserved"  // torch.cuda.max_memory_reserved
	LevelDevice    Level = "device"    // nvidia-smi
)

// ReserveItem is memory that is needed besides the tensors.
type ReserveItem struct {
	Name  string
	Bytes unit.Bytes
	// Least is the smallest amount known of any system: with less a step cannot fit.
	Least  unit.Bytes
	Level  Level
	Reason string
	Source string
}

// Workspaces and context.
const (
	// hopperWorkspace and olderWorkspace are what PyTorch gives each cuBLAS handle on a stream: 32 MiB on sm_90 and
	// newer, elsewhere 2·4096 KiB + 8·16 KiB.
	hopperWorkspace = 32 * unit.MiB
	olderWorkspace  = 2*4096*unit.KiB + 8*16*unit.KiB
	ltWorkspace     = unit.MiB
	// gfx9Workspace and amdWorkspace are the same of hipBLAS: 128 MiB on gfx94x and gfx95x, elsewhere 32 MiB.
	// Source: PyTorch, CublasHandlePool.cpp (parseChosenWorkspaceSize).
	gfx9Workspace = 128 * unit.MiB
	amdWorkspace  = 32 * unit.MiB
	// handles: the forward thread and autograd's thread hold one handle each.
	handles = 2
	// context is the CUDA context with the kernels of PyTorch, cuBLAS and an attention kernel loaded: 0.4 to 0.7 GiB.
	// The upper end is set aside, since a budget that turns out too small costs the run.
	context      = 7 * unit.GiB / 10
	leastContext = 4 * unit.GiB / 10
	// roundingPercent is how much more than the tensors the caching allocator holds when the card is nearly full. In 19 runs on
	// B200 with both numbers published, reserved is 0.1 to 11.4 % above allocated, 4.0 % in the median; out-of-memory
	// reports of full cards say 2.4 to 11.7 %. Six per cent is above 14 of the 19. A nearly full card is the case that
	// matters, since the allocator gives whole free segments back before it fails.
	roundingPercent = 6
)

// Reserve itemises the memory that must be left besides tensorBytes on the card, since the allocator is not simulated: workspaces
// of the matrix libraries (inside allocated), rounding and fragmentation of the caching allocator (reserved), and the
// CUDA context (device). s may be nil: without a sheet the larger workspaces count.
func (s *Sheet) Reserve(tensorBytes unit.Bytes) []ReserveItem {
	workspace, why := hopperWorkspace, "32 MiB for each of two handles (forward and backward thread), as on sm_90 and newer"
	switch {
	case s == nil:
		why += "; assumed, since the GPU is not known"
	case strings.HasPrefix(s.GFX, "gfx94"), strings.HasPrefix(s.GFX, "gfx95"):
		workspace, why = gfx9Workspace, "128 MiB for each of two handles (forward and backward thread), as hipBLAS has on gfx94x and gfx95x"
	case s.GFX != "":
		workspace, why = amdWorkspace, "32 MiB for each of two handles (forward and backward thread), as hipBLAS has before gfx94x"
	case s.ComputeCapability.Major < 9:
		workspace, why = olderWorkspace, "8.125 MiB for each of two handles (forward and backward thread), as before sm_90"
	}
	return []ReserveItem{
		{
			Name: "cuBLAS workspaces", Bytes: handles * workspace, Least: handles * workspace, Level: LevelAllocated, Reason: why,
			Source: "PyTorch, CUDABlas workspace defaults; 8,519,680 B seen on an A10G in pytorch issue 95668",
		},
		{
			Name: "cublasLt workspaces", Bytes: handles * ltWorkspace, Least: handles * ltWorkspace, Level: LevelAllocated,
			Reason: "1 MiB for each of two handles; shared with cuBLAS in PyTorch releases since 2026",
			Source: "PyTorch, CUBLASLT_WORKSPACE_SIZE default",
		},
		{
			Name: "allocator rounding", Bytes: percent(tensorBytes, roundingPercent), Level: LevelReserved,
			Reason: "6 % of the tensors: blocks round up, and free parts of segments cannot always be used",
			Source: "reserved and allocated of 19 runs on B200 published by SimuMax (median 4.0 %, most 11.4 %); out-of-memory reports of full cards (2.4 to 11.7 %)",
		},
		{
			Name: "CUDA context", Bytes: context, Least: leastContext, Level: LevelDevice,
			Reason: "driver, loaded kernels and library handles of one process: 0.4 to 0.7 GiB; the upper end",
			Source: "pytorch issues 86509 and 109888; 426 MiB on an RTX 6000 Ada before kernels load",
		},
	}
}

// Total is the sum of the items.
func Total(items []ReserveItem) unit.Bytes {
	var sum unit.Bytes
	for _, it := range items {
		sum += it.Bytes
	}
	return sum
}

// Least is the sum of the items' Least.
func Least(items []ReserveItem) unit.Bytes {
	var sum unit.Bytes
	for _, it := range items {
		sum += it.Least
	}
	return sum
}

// TensorBudget is the most tensor bytes that leave room for their own Reserve in a device with total bytes, or 0.
func (s *Sheet) TensorBudget(total unit.Bytes) unit.Bytes {
	// t + ⌈t·p/100⌉ ≤ room  ⇔  t ≤ 100·room / (100+p), rounded down
	room := total - Total(s.Reserve(0))
	if room <= 0 {
		return 0
	}
	t := new(big.Int).Mul(big.NewInt(int64(room)), big.NewInt(100))
	return unit.Bytes(t.Div(t, big.NewInt(100+roundingPercent)).Int64())
}

// percent is p % of b, rounded up.
func percent(b unit.Bytes, p int64) unit.Bytes {
	return b/100*unit.Bytes(p) + (b%100*unit.Bytes(p)+99)/100
}
