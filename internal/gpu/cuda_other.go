//go:build !linux || (!amd64 && !arm64)

package gpu

import "fmt"

// Discover finds no device: the CUDA driver is used on Linux only.
func Discover() ([]Device, error) {
	return nil, fmt.Errorf("%w: devices are used on Linux amd64 and arm64 only", ErrNoDriver)
}
