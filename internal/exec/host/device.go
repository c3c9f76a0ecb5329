package host

import (
	"fmt"
	"math"
	"sync"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// Device is the reference device: memory with a hard capacity that counts every byte as it was requested, without blocks,
// segments or a context. What an executor puts into its allocations is the executor's own.
type Device struct {
	mu       sync.Mutex
	capacity unit.Bytes
	used     unit.Bytes
	high     unit.Bytes
	sizes    map[gpu.DevicePtr]unit.Bytes
	next     gpu.DevicePtr
}

var _ gpu.Device = (*Device)(nil)

// NewDevice makes a device of that many bytes; 0 is without limit.
func NewDevice(capacity unit.Bytes) *Device {
	if capacity <= 0 {
		capacity = math.MaxInt64
	}
	return &Device{capacity: capacity, sizes: map[gpu.DevicePtr]unit.Bytes{}, next: 1}
}

// Name is "host".
func (h *Device) Name() string { return "host" }

// Memory is what is free, and the capacity.
func (h *Device) Memory() (free, total unit.Bytes, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sizes == nil {
		return 0, 0, gpu.ErrClosed
	}
	return h.capacity - h.used, h.capacity, nil
}

// Alloc takes n bytes. Where they do not fit the error is an *gpu.OutOfMemoryError.
func (h *Device) Alloc(n unit.Bytes) (gpu.DevicePtr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.sizes == nil:
		return 0, gpu.ErrClosed
	case n < 0:
		return 0, fmt.Errorf("allocation of %d bytes", n)
	case n > h.capacity-h.used:
		return 0, &gpu.OutOfMemoryError{Wanted: n, Free: h.capacity - h.used}
	}
	p := h.next
	h.next++
	h.sizes[p] = n
	h.used += n
	h.high = max(h.high, h.used)
	return p, nil
}

// Free gives an allocation back. It is an error to free what is not allocated.
func (h *Device) Free(p gpu.DevicePtr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.sizes[p]
	if !ok {
		return fmt.Errorf("free of allocation %d, which is not alive", p)
	}
	delete(h.sizes, p)
	h.used -= n
	return nil
}

// Used is what is allocated now.
func (h *Device) Used() unit.Bytes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used
}

// High is the most that was allocated at once since the device was made or since ResetHigh.
func (h *Device) High() unit.Bytes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.high
}

// ResetHigh starts the high-water mark anew from what is allocated now.
func (h *Device) ResetHigh() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.high = h.used
}

// Close forgets all allocations; every later call but Used and High is an error.
func (h *Device) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sizes, h.used = nil, 0
	return nil
}
