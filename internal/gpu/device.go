package gpu

import (
	"errors"
	"fmt"

	"ckptplan/internal/unit"
)

// Device is a memory that a plan can run on, and the kernels that compute there: a CUDA device, or one like it. Its
// memory is reached only by copies and launches.
type Device interface {
	// Name is the device's name, as its driver gives it.
	Name() string
	// Memory is the free and the total memory. Free counts all processes.
	Memory() (free, total unit.Bytes, err error)
	// Alloc takes memory, whose content is undefined. Where it does not fit the error is an *OutOfMemoryError.
	Alloc(size unit.Bytes) (DevicePtr, error)
	// Free gives memory of Alloc back.
	Free(ptr DevicePtr) error
	// CopyIn and CopyOut move bytes between this process and an allocation, from its byte offset on.
	CopyIn(dst DevicePtr, offset unit.Bytes, src []byte) error
	CopyOut(dst []byte, src DevicePtr, offset unit.Bytes) error
	// Has reports whether the device has a kernel, and Launch runs it.
	Has(k Kernel) bool
	Launch(k Kernel, a *Args) error
	// Close frees the device's memory. The device must not be used afterwards.
	Close() error
}

// DevicePtr is an address in device memory.
type DevicePtr uint64

// ErrNoDriver says that no CUDA driver could be loaded, or that it has no device.
var ErrNoDriver = errors.New("no CUDA driver")

// ErrClosed says that a device was used after Close.
var ErrClosed = errors.New("device is closed")

// ErrOutOfMemory says that the device has not enough free memory for an allocation. The error that wraps it is an
// *OutOfMemoryError with the numbers.
var ErrOutOfMemory = errors.New("out of device memory")

// OutOfMemoryError is an allocation that failed.
type OutOfMemoryError struct {
	Wanted unit.Bytes
	Free   unit.Bytes // free on the device when it failed, counting all processes
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("%v: wanted %s, %s free", ErrOutOfMemory, e.Wanted.Both(), e.Free.Both())
}

func (e *OutOfMemoryError) Unwrap() error { return ErrOutOfMemory }

// Result is a status other than success that a call of the CUDA driver returned.
type Result struct {
	Call string // the driver's function
	Code int    // CUresult
	Name string // cuGetErrorName's text, or "" if the driver does not know the code
}

func (r *Result) Error() string {
	if r.Name == "" {
		return fmt.Sprintf("%s: CUDA error %d", r.Call, r.Code)
	}
	return fmt.Sprintf("%s: %s", r.Call, r.Name)
}
