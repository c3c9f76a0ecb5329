//go:build linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"ckptplan/internal/gpu"
)

// libcuda are the names of the driver's library, for the system's loader to find.
var libcuda = []string{"libcuda.so.1", "libcuda.so"}

// Statuses of the driver (CUresult).
const (
	success     = 0
	outOfMemory = 2
)

// Device attributes (CUdevice_attribute).
const (
	attributeSMs   = 16
	attributeMajor = 75
	attributeMinor = 76
)

// driver holds the functions of a loaded CUDA driver. A status is a CUresult.
type driver struct {
	getErrorName  func(status int32, name **byte) int32
	init          func(flags uint32) int32
	driverVersion func(version *int32) int32
	deviceCount   func(count *int32) int32
	deviceGet     func(device *int32, ordinal int32) int32
	deviceName    func(name *byte, size int32, device int32) int32
	totalMem      func(bytes *uint64, device int32) int32
	attribute     func(value *int32, attribute int32, device int32) int32
	retainContext func(context *uintptr, device int32) int32
	freeContext   func(device int32) int32
	setContext    func(context uintptr) int32
	memInfo       func(free, total *uint64) int32
	memAlloc      func(ptr *gpu.DevicePtr, bytes uint64) int32
	memFree       func(ptr gpu.DevicePtr) int32
	copyIn        func(dst gpu.DevicePtr, src unsafe.Pointer, bytes uint64) int32
	copyOut       func(dst unsafe.Pointer, src gpu.DevicePtr, bytes uint64) int32
}

// load opens the first library that the system's loader finds, looks its functions up and initialises it.
func load(paths []string) (*driver, error) {
	lib, path, err := open(paths)
	if err != nil {
		return nil, err
	}
	d := &driver{}
	for _, sym := range []struct {
		name string
		fn   any // pointer to a func field of driver
	}{
		{"cuGetErrorName", &d.getErrorName},
		{"cuInit", &d.init},
		{"cuDriverGetVersion", &d.driverVersion},
		{"cuDeviceGetCount", &d.deviceCount},
		{"cuDeviceGet", &d.deviceGet},
		{"cuDeviceGetName", &d.deviceName},
		{"cuDeviceTotalMem_v2", &d.totalMem},
		{"cuDeviceGetAttribute", &d.attribute},
		{"cuDevicePrimaryCtxRetain", &d.retainContext},
		{"cuDevicePrimaryCtxRelease_v2", &d.freeContext},
		{"cuCtxSetCurrent", &d.setContext},
		{"cuMemGetInfo_v2", &d.memInfo},
		{"cuMemAlloc_v2", &d.memAlloc},
		{"cuMemFree_v2", &d.memFree},
		{"cuMemcpyHtoD_v2", &d.copyIn},
		{"cuMemcpyDtoH_v2", &d.copyOut},
	} {
		addr, err := purego.Dlsym(lib, sym.name)
		if err != nil {
			return nil, fmt.Errorf("%w: %s lacks %s", gpu.ErrNoDriver, path, sym.name)
		}
		purego.RegisterFunc(sym.fn, addr)
	}
	if err := d.check("cuInit", d.init(0)); err != nil {
		return nil, fmt.Errorf("%w: %w", gpu.ErrNoDriver, err)
	}
	return d, nil
}

// open returns the handle and name of the first library that loads. It is never closed: a driver cannot be unloaded
// safely once it runs threads.
func open(paths []string) (lib uintptr, path string, err error) {
	var failures []string
	for _, path := range paths {
		lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return lib, path, nil
		}
		failures = append(failures, err.Error())
	}
	return 0, "", fmt.Errorf("%w: %s", gpu.ErrNoDriver, strings.Join(failures, "; "))
}

// check turns a status into an error: nil for success, else a *Result.
func (d *driver) check(call string, status int32) error {
	if status == success {
		return nil
	}
	var name *byte
	r := &gpu.Result{Call: call, Code: int(status)}
	if d.getErrorName(status, &name) == success && name != nil {
		r.Name = text(name)
	}
	return r
}

// text copies a C string that the driver owns.
func text(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
