//go:build linux && (amd64 || arm64)

package cuda

import (
	"errors"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// fakeDriver compiles the driver of testdata; macros make a variant.
func fakeDriver(t *testing.T, macros ...string) []string {
	t.Helper()
	cc, err := osexec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: the CUDA driver's stand-in cannot be built")
	}
	lib := filepath.Join(t.TempDir(), "libcuda.so")
	args := append([]string{"-shared", "-fPIC", "-o", lib, filepath.Join("testdata", "libcuda.c")}, macros...)
	if out, err := osexec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	return []string{"libno-such-driver.so", lib}
}

// The numbers are those of testdata/libcuda.c.
const (
	fakeTotal   = unit.Bytes(25_438_126_080)
	fakeContext = unit.Bytes(300_000_000)
)

func TestDiscover(t *testing.T) {
	devices, err := discover(fakeDriver(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(devices) != 2 {
		t.Fatalf("%d devices, want 2", len(devices))
	}
	dev := devices[1].(*Device)
	t.Cleanup(func() { devices[0].Close() })
	if dev.Name() != "NVIDIA GeForce RTX 3090" || dev.Total() != fakeTotal || dev.SMs() != 82 {
		t.Errorf("got %q with %d bytes and %d SMs", dev.Name(), dev.Total(), dev.SMs())
	}
	if dev.ComputeCapability() != (gpu.Capability{Major: 8, Minor: 6}) || dev.DriverVersion() != "12.8" {
		t.Errorf("capability %v, driver %s; want 8.6, 12.8", dev.ComputeCapability(), dev.DriverVersion())
	}
	if s, err := gpu.Lookup(dev.Name()); err != nil || s.Name != "RTX-3090" {
		t.Errorf("data sheet of %q: %v, %v", dev.Name(), s, err)
	}
	free, total, err := dev.Memory()
	if err != nil || total != fakeTotal || free != fakeTotal-fakeContext {
		t.Errorf("Memory() = %d, %d, %v", free, total, err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if err := dev.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if _, _, err := dev.Memory(); !errors.Is(err, gpu.ErrClosed) {
		t.Errorf("Memory after Close: %v, want gpu.ErrClosed", err)
	}
}

func TestAlloc(t *testing.T) {
	devices, err := discover(fakeDriver(t))
	if err != nil {
		t.Fatal(err)
	}
	dev := devices[0].(*Device)
	defer dev.Close()
	ptr, err := dev.Alloc(20 * unit.GB)
	if err != nil {
		t.Fatal(err)
	}
	_, err = dev.Alloc(6 * unit.GB)
	var oom *gpu.OutOfMemoryError
	if !errors.Is(err, gpu.ErrOutOfMemory) || !errors.As(err, &oom) {
		t.Fatalf("got %v, want gpu.ErrOutOfMemory", err)
	}
	// 25438126080 − 300000000 − 20·10⁹
	if oom.Wanted != 6*unit.GB || oom.Free != 5_138_126_080 {
		t.Errorf("wanted %d, free %d", oom.Wanted, oom.Free)
	}
	if want := "out of device memory: wanted 6.00 GB (5.59 GiB), 5.14 GB (4.79 GiB) free"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if err := dev.Free(ptr); err != nil {
		t.Fatal(err)
	}
	if free, _, err := dev.Memory(); err != nil || free != fakeTotal-fakeContext {
		t.Errorf("after Free: %d free, %v", free, err)
	}
}

func TestCopies(t *testing.T) {
	devices, err := discover(fakeDriver(t))
	if err != nil {
		t.Fatal(err)
	}
	dev := devices[1]
	defer dev.Close()
	ptr, err := dev.Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dev.CopyIn(ptr, 0, []byte("0123456789")), dev.CopyIn(ptr, 4, []byte("abc")), dev.CopyIn(ptr, 10, nil)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if err := dev.CopyOut(got, ptr, 3); err != nil || string(got) != "3abc78" {
		t.Errorf("bytes 3 to 9 are %q, %v", got, err)
	}
	var r *gpu.Result
	if err := dev.CopyIn(ptr, 5, got); !errors.As(err, &r) || r.Error() != "cuMemcpyHtoD: CUDA_ERROR_INVALID_VALUE" {
		t.Errorf("a copy beyond the allocation: %v", err)
	}
}

func TestLaunchIsRefused(t *testing.T) {
	devices, err := discover(fakeDriver(t))
	if err != nil {
		t.Fatal(err)
	}
	defer devices[0].Close()
	want := "NVIDIA GeForce RTX 3090: there is no CUDA kernel for matmul yet; the torch engine runs on CUDA devices"
	if err := devices[0].Launch(gpu.MatMul, &gpu.Args{}); err == nil || err.Error() != want || devices[0].Has(gpu.MatMul) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestResult(t *testing.T) {
	devices, err := discover(fakeDriver(t))
	if err != nil {
		t.Fatal(err)
	}
	dev := devices[0].(*Device)
	defer dev.Close()
	_, err = dev.Alloc(0)
	var r *gpu.Result
	if !errors.As(err, &r) || r.Code != 1 || r.Error() != "cuMemAlloc: CUDA_ERROR_INVALID_VALUE" {
		t.Errorf("got %v", err)
	}
	if err := dev.driver.check("cuNew", 12345); err == nil || err.Error() != "cuNew: CUDA error 12345" {
		t.Errorf("a code without a name: %v", err)
	}
}

func TestNoDriver(t *testing.T) {
	for _, tc := range []struct {
		name  string
		paths []string
		says  string
	}{
		{"no library", []string{"libno-such-driver.so"}, "libno-such-driver.so"},
		{"no device", fakeDriver(t, "-DDEVICES=0"), "no device"},
		{"driver refuses", fakeDriver(t, "-DINIT=100"), "cuInit: CUDA_ERROR_NO_DEVICE"},
		{"old driver", fakeDriver(t, "-DNO_MEMORY_CALLS"), "lacks cuMemGetInfo_v2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			devices, err := discover(tc.paths)
			if !errors.Is(err, gpu.ErrNoDriver) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v; want gpu.ErrNoDriver with %q", devices, err, tc.says)
			}
		})
	}
}

// TestDiscoverHere runs on whatever this machine has.
func TestDiscoverHere(t *testing.T) {
	devices, err := Discover()
	if err != nil {
		if !errors.Is(err, gpu.ErrNoDriver) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for _, dev := range devices {
		free, total, err := dev.Memory()
		if err != nil || free <= 0 || total < free {
			t.Errorf("%s: %d free of %d, %v", dev.Name(), free, total, err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
