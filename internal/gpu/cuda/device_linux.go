//go:build linux && (amd64 || arm64)

// Package cuda finds and uses the CUDA devices of this machine through the driver's library, which is loaded at run
// time: nothing of CUDA is needed to build.
package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// Discover finds the CUDA devices of this machine. It takes no memory on them. The error wraps ErrNoDriver if there
// is no driver or no device.
func Discover() ([]gpu.Device, error) { return discover(libcuda) }

func discover(paths []string) ([]gpu.Device, error) {
	d, err := load(paths)
	if err != nil {
		return nil, err
	}
	var count, version int32
	if err := errors.Join(
		d.check("cuDeviceGetCount", d.deviceCount(&count)),
		d.check("cuDriverGetVersion", d.driverVersion(&version)),
	); err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("%w: the driver has no device", gpu.ErrNoDriver)
	}
	var devices []gpu.Device
	for ordinal := range count {
		dev, err := d.describe(ordinal)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", ordinal, err)
		}
		dev.driverVersion = version
		devices = append(devices, dev)
	}
	return devices, nil
}

var _ gpu.Device = (*Device)(nil)

// Device is a device of the CUDA driver. Its methods may be called from any goroutine.
type Device struct {
	driver        *driver
	handle        int32 // CUdevice
	name          string
	total         unit.Bytes
	capability    gpu.Capability
	sms           int
	driverVersion int32

	mu     sync.Mutex
	calls  chan func() // to the owner goroutine; nil until it runs
	closed bool
}

// describe reads the attributes that need no context.
func (d *driver) describe(ordinal int32) (*Device, error) {
	dev := &Device{driver: d}
	if err := d.check("cuDeviceGet", d.deviceGet(&dev.handle, ordinal)); err != nil {
		return nil, err
	}
	var total uint64
	var major, minor, sms int32
	name := make([]byte, 256)
	if err := errors.Join(
		d.check("cuDeviceGetName", d.deviceName(&name[0], int32(len(name)), dev.handle)),
		d.check("cuDeviceTotalMem", d.totalMem(&total, dev.handle)),
		d.check("cuDeviceGetAttribute", d.attribute(&major, attributeMajor, dev.handle)),
		d.check("cuDeviceGetAttribute", d.attribute(&minor, attributeMinor, dev.handle)),
		d.check("cuDeviceGetAttribute", d.attribute(&sms, attributeSMs, dev.handle)),
	); err != nil {
		return nil, err
	}
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		end = len(name)
	}
	dev.name = string(name[:end])
	dev.total = unit.Bytes(total)
	dev.capability = gpu.Capability{Major: int(major), Minor: int(minor)}
	dev.sms = int(sms)
	return dev, nil
}

// Name is the driver's name of the device, such as "NVIDIA A100-SXM4-80GB"; Lookup knows it if there is a data sheet.
func (dev *Device) Name() string { return dev.name }

// ComputeCapability is the SM version.
func (dev *Device) ComputeCapability() gpu.Capability { return dev.capability }

// SMs is the number of streaming multiprocessors.
func (dev *Device) SMs() int { return dev.sms }

// DriverVersion is the newest CUDA version that the driver supports, such as "12.8".
func (dev *Device) DriverVersion() string {
	return fmt.Sprintf("%d.%d", dev.driverVersion/1000, dev.driverVersion%1000/10)
}

// Total is the device's memory, known without a context.
func (dev *Device) Total() unit.Bytes { return dev.total }

// Memory is the free and total memory of the device. Its first call makes the CUDA context, which takes some 0.3 GiB
// that free no longer counts.
func (dev *Device) Memory() (free, total unit.Bytes, err error) {
	err = dev.do(func() error {
		free, total, err = dev.memory()
		return err
	})
	return free, total, err
}

// memory must run on the owner goroutine.
func (dev *Device) memory() (free, total unit.Bytes, err error) {
	var f, t uint64
	if err := dev.driver.check("cuMemGetInfo", dev.driver.memInfo(&f, &t)); err != nil {
		return 0, 0, err
	}
	return unit.Bytes(f), unit.Bytes(t), nil
}

// Alloc takes size bytes of device memory. The error is an *OutOfMemoryError if that much is not free in one piece.
func (dev *Device) Alloc(size unit.Bytes) (gpu.DevicePtr, error) {
	var ptr gpu.DevicePtr
	err := dev.do(func() error {
		status := dev.driver.memAlloc(&ptr, uint64(size))
		if status != outOfMemory {
			return dev.driver.check("cuMemAlloc", status)
		}
		free, _, err := dev.memory()
		if err != nil {
			return errors.Join(gpu.ErrOutOfMemory, err)
		}
		return &gpu.OutOfMemoryError{Wanted: size, Free: free}
	})
	return ptr, err
}

// Free gives memory of Alloc back.
func (dev *Device) Free(ptr gpu.DevicePtr) error {
	return dev.do(func() error { return dev.driver.check("cuMemFree", dev.driver.memFree(ptr)) })
}

// CopyIn writes bytes of an allocation. The copy is synchronous: src may be reused when it returns.
func (dev *Device) CopyIn(dst gpu.DevicePtr, offset unit.Bytes, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return dev.do(func() error {
		return dev.driver.check("cuMemcpyHtoD", dev.driver.copyIn(dst+gpu.DevicePtr(offset), unsafe.Pointer(unsafe.SliceData(src)), uint64(len(src))))
	})
}

// CopyOut reads bytes of an allocation.
func (dev *Device) CopyOut(dst []byte, src gpu.DevicePtr, offset unit.Bytes) error {
	if len(dst) == 0 {
		return nil
	}
	return dev.do(func() error {
		return dev.driver.check("cuMemcpyDtoH", dev.driver.copyOut(unsafe.Pointer(unsafe.SliceData(dst)), src+gpu.DevicePtr(offset), uint64(len(dst))))
	})
}

// Has reports whether there is a kernel: none is written yet.
func (dev *Device) Has(gpu.Kernel) bool { return false }

// Launch refuses every kernel: none is written yet.
func (dev *Device) Launch(k gpu.Kernel, _ *gpu.Args) error {
	return fmt.Errorf("%s: there is no CUDA kernel for %s yet; the torch engine runs on CUDA devices", dev.name, k)
}

// Close releases the device's context, if there is one. Closing again does nothing.
func (dev *Device) Close() error {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if dev.closed {
		return nil
	}
	dev.closed = true
	if dev.calls == nil {
		return nil
	}
	err := dev.call(func() error {
		return dev.driver.check("cuDevicePrimaryCtxRelease", dev.driver.freeContext(dev.handle))
	})
	close(dev.calls)
	return err
}

// do runs f where the device's context is current: on one goroutine that is locked to its thread, since a CUDA context
// is current per thread. The goroutine starts with the first call.
func (dev *Device) do(f func() error) error {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if dev.closed {
		return gpu.ErrClosed
	}
	if dev.calls == nil {
		if err := dev.start(); err != nil {
			return err
		}
	}
	return dev.call(f)
}

// start runs the owner goroutine and makes the primary context, which cuBLAS shares, current on its thread.
func (dev *Device) start() error {
	dev.calls = make(chan func())
	go func(calls <-chan func()) {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, its context with it
		for f := range calls {
			f()
		}
	}(dev.calls)
	err := dev.call(func() error {
		var context uintptr
		if err := dev.driver.check("cuDevicePrimaryCtxRetain", dev.driver.retainContext(&context, dev.handle)); err != nil {
			return err
		}
		err := dev.driver.check("cuCtxSetCurrent", dev.driver.setContext(context))
		if err != nil {
			dev.driver.freeContext(dev.handle) // the first error is the one to report
		}
		return err
	})
	if err != nil {
		close(dev.calls)
		dev.calls = nil
	}
	return err
}

// call runs f on the owner goroutine and waits for it. The caller holds the lock.
func (dev *Device) call(f func() error) error {
	result := make(chan error)
	dev.calls <- func() { result <- f() }
	return <-result
}
