//go:build !linux || (!amd64 && !arm64)

// Package cuda finds and uses the CUDA devices of this machine through the driver's library, which is loaded at run
// time: nothing of CUDA is needed to build.
package cuda

import (
	"fmt"

	"ckptplan/internal/gpu"
)

// Discover finds no device: the CUDA driver is used on Linux only.
func Discover() ([]gpu.Device, error) {
	return nil, fmt.Errorf("%w: devices are used on Linux amd64 and arm64 only", gpu.ErrNoDriver)
}
