package interpreter

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"ckptplan/internal/exec/host"
	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// devices are what the tests run on. All of them must give the same bytes and the same numbers.
var devices = []struct {
	name string
	open func(t testing.TB, capacity unit.Bytes) gpu.Device
}{
	{"host", func(_ testing.TB, capacity unit.Bytes) gpu.Device { return host.NewDevice(capacity) }},
	{"checked", openChecked},
}

const (
	guard  = 64   // bytes before and behind each allocation
	canary = 0xC5 // what they hold
	poison = 0xFF // what new and freed memory holds: NaN in every floating type
)

// checked is a device with an address space of its own. It runs the host's kernels on copies of their arguments, fills
// unwritten memory with NaN, and notices writes outside an allocation and any use of one that was freed.
type checked struct {
	t        testing.TB
	capacity unit.Bytes
	used     unit.Bytes
	blocks   map[gpu.DevicePtr][]byte
}

func openChecked(t testing.TB, capacity unit.Bytes) gpu.Device {
	if capacity == 0 {
		capacity = math.MaxInt64
	}
	c := &checked{t: t, capacity: capacity, blocks: map[gpu.DevicePtr][]byte{}}
	t.Cleanup(func() { c.guards() })
	return c
}

func (c *checked) Name() string { return "checked" }

func (c *checked) Memory() (free, total unit.Bytes, err error) {
	return c.capacity - c.used, c.capacity, nil
}

func (c *checked) Alloc(size unit.Bytes) (gpu.DevicePtr, error) {
	if size > c.capacity-c.used {
		return 0, &gpu.OutOfMemoryError{Wanted: size, Free: c.capacity - c.used}
	}
	words := make([]int64, (size+7)/8+2*guard/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size+2*guard)
	copy(b, bytes.Repeat([]byte{canary}, guard))
	copy(b[guard:], bytes.Repeat([]byte{poison}, int(size)))
	copy(b[guard+size:], bytes.Repeat([]byte{canary}, guard))
	ptr := gpu.DevicePtr(rand.Uint64() | 1<<63)
	c.blocks[ptr] = b
	c.used += size
	return ptr, nil
}

func (c *checked) Free(ptr gpu.DevicePtr) error {
	b, err := c.at(ptr)
	if err != nil {
		return err
	}
	delete(c.blocks, ptr)
	c.used -= unit.Bytes(len(b))
	return nil
}

// at is an allocation's own memory, with its guards intact.
func (c *checked) at(ptr gpu.DevicePtr) ([]byte, error) {
	b, ok := c.blocks[ptr]
	if !ok {
		return nil, fmt.Errorf("allocation %x is not alive", ptr)
	}
	end := len(b) - guard
	for i := range guard {
		if b[i] != canary || b[end+i] != canary {
			return nil, fmt.Errorf("something wrote outside allocation %x of %d bytes", ptr, end-guard)
		}
	}
	return b[guard:end:end], nil
}

func (c *checked) guards() {
	for ptr := range c.blocks {
		if _, err := c.at(ptr); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *checked) CopyIn(dst gpu.DevicePtr, offset unit.Bytes, src []byte) error {
	b, err := c.at(dst)
	if err == nil && copy(b[offset:], src) != len(src) {
		err = fmt.Errorf("copy beyond allocation %x", dst)
	}
	return err
}

func (c *checked) CopyOut(dst []byte, src gpu.DevicePtr, offset unit.Bytes) error {
	b, err := c.at(src)
	if err == nil && copy(dst, b[offset:]) != len(dst) {
		err = fmt.Errorf("copy beyond allocation %x", src)
	}
	return err
}

func (c *checked) Has(k gpu.Kernel) bool { return host.Has(k) }

// Launch gives the kernel the results' memory itself and copies of all else.
func (c *checked) Launch(k gpu.Kernel, a *gpu.Args) error {
	results := map[gpu.DevicePtr]bool{}
	for _, t := range a.Out {
		results[t.Ptr] = true
	}
	return host.Launch(k, a, func(ptr gpu.DevicePtr) ([]byte, error) {
		b, err := c.at(ptr)
		if err != nil || results[ptr] {
			return b, err
		}
		words := make([]int64, (len(b)+7)/8+1)
		whole := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b))
		copy(whole, b)
		return whole, nil
	})
}

func (c *checked) Close() error {
	c.guards()
	c.blocks = nil
	return nil
}

// The checked device catches what it is there for.
func TestCheckedDevice(t *testing.T) {
	d := openChecked(t, 100).(*checked)
	p, err := d.Alloc(40)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 40)
	if err := d.CopyOut(got, p, 0); err != nil || !slices.Equal(got, bytes.Repeat([]byte{poison}, 40)) {
		t.Errorf("new memory holds %v, %v", got, err)
	}
	if err := d.CopyIn(p, 36, make([]byte, 8)); err == nil {
		t.Error("a copy beyond the allocation was let through")
	}
	d.blocks[p][guard+40]++
	if err := d.Free(p); err == nil {
		t.Error("a write behind the allocation was not noticed")
	}
	d.blocks[p][guard+40]--
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
	if err := d.CopyOut(got, p, 0); err == nil {
		t.Error("freed memory was read")
	}
}
