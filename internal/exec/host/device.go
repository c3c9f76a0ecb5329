// Package host is the reference device: memory of this process with a hard capacity and exact accounting, and a kernel in
// plain Go for every op. It knows no graphs, plans or autograd: package interpreter runs those on any gpu.Device.
package host

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// Device is the reference device: memory with a hard capacity that counts every byte as it was requested, without blocks,
// segments or a context, and kernels in Go. It stores numbers as a CUDA device does: bfloat16 in two bytes.
type Device struct {
	mu       sync.Mutex
	capacity unit.Bytes
	used     unit.Bytes
	high     unit.Bytes
	memory   map[gpu.DevicePtr][]byte
	next     gpu.DevicePtr
}

var _ gpu.Device = (*Device)(nil)

// NewDevice makes a device of that many bytes; 0 means no limit.
func NewDevice(capacity unit.Bytes) *Device {
	if capacity <= 0 {
		capacity = math.MaxInt64
	}
	return &Device{capacity: capacity, memory: map[gpu.DevicePtr][]byte{}, next: 1}
}

// Name is "host".
func (h *Device) Name() string { return "host" }

// Memory is the free bytes and the capacity.
func (h *Device) Memory() (free, total unit.Bytes, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.memory == nil {
		return 0, 0, gpu.ErrClosed
	}
	return h.capacity - h.used, h.capacity, nil
}

// Alloc takes n bytes. Where they do not fit the error is an *gpu.OutOfMemoryError.
func (h *Device) Alloc(n unit.Bytes) (gpu.DevicePtr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.memory == nil:
		return 0, gpu.ErrClosed
	case n < 0:
		return 0, fmt.Errorf("allocation of %d bytes", n)
	case n > h.capacity-h.used:
		return 0, &gpu.OutOfMemoryError{Wanted: n, Free: h.capacity - h.used}
	}
	p := h.next
	h.next++
	h.memory[p] = allocate(n)
	h.used += n
	h.high = max(h.high, h.used)
	return p, nil
}

// Free gives an allocation back. It is an error to free an address that is not allocated.
func (h *Device) Free(p gpu.DevicePtr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	mem, ok := h.memory[p]
	if !ok {
		return fmt.Errorf("free of allocation %d, which is not alive", p)
	}
	delete(h.memory, p)
	h.used -= unit.Bytes(len(mem))
	return nil
}

// allocate is memory that is laid out for the largest elements. An allocation of no bytes has an address too.
func allocate(n unit.Bytes) []byte {
	words := make([]int64, max(1, (n+7)/8))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// at is an allocation's memory.
func (h *Device) at(p gpu.DevicePtr) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mem, ok := h.memory[p]
	if !ok {
		return nil, fmt.Errorf("allocation %d is used, which is not alive", p)
	}
	return mem, nil
}

// CopyIn writes bytes of an allocation.
func (h *Device) CopyIn(dst gpu.DevicePtr, offset unit.Bytes, src []byte) error {
	mem, err := h.at(dst)
	if err != nil {
		return err
	}
	if offset < 0 || offset > unit.Bytes(len(mem)-len(src)) {
		return fmt.Errorf("copy of %d bytes to byte %d of an allocation of %d", len(src), offset, len(mem))
	}
	copy(mem[offset:], src)
	return nil
}

// CopyOut reads bytes of an allocation.
func (h *Device) CopyOut(dst []byte, src gpu.DevicePtr, offset unit.Bytes) error {
	mem, err := h.at(src)
	if err != nil {
		return err
	}
	if offset < 0 || offset > unit.Bytes(len(mem)-len(dst)) {
		return fmt.Errorf("copy of %d bytes from byte %d of an allocation of %d", len(dst), offset, len(mem))
	}
	copy(dst, mem[offset:])
	return nil
}

// Has reports whether there is a kernel of that name.
func (h *Device) Has(k gpu.Kernel) bool { return Has(k) }

// Launch runs a kernel and returns when it has finished.
func (h *Device) Launch(k gpu.Kernel, a *gpu.Args) error { return Launch(k, a, h.at) }

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
	h.memory, h.used = nil, 0
	return nil
}
