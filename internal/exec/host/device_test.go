package host

import (
	"errors"
	"testing"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

func TestHostCountsRequestedBytes(t *testing.T) {
	h := NewDevice(100)
	a, err := h.Alloc(60)
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.Alloc(40)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Free(a); err != nil {
		t.Fatal(err)
	}
	if h.Used() != 40 || h.High() != 100 {
		t.Errorf("used %d, high %d; want 40 and 100", h.Used(), h.High())
	}
	h.ResetHigh()
	if h.High() != 40 {
		t.Errorf("high after reset is %d, want 40", h.High())
	}
	var oom *gpu.OutOfMemoryError
	if _, err := h.Alloc(61); !errors.As(err, &oom) || oom.Wanted != 61 || oom.Free != 60 || !errors.Is(err, gpu.ErrOutOfMemory) {
		t.Errorf("61 of 60 bytes: %v", err)
	}
	if h.Used() != 40 {
		t.Errorf("a failed allocation left %d used, want 40", h.Used())
	}
	if free, total, err := h.Memory(); free != 60 || total != 100 || err != nil {
		t.Errorf("memory is %d of %d, %v; want 60 of 100", free, total, err)
	}
	if err := h.Free(a); err == nil {
		t.Error("an allocation was freed twice")
	}
	if err := h.Free(b); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Alloc(1); !errors.Is(err, gpu.ErrClosed) {
		t.Errorf("allocation after Close: %v", err)
	}
}

func TestHostWithoutLimit(t *testing.T) {
	if _, err := NewDevice(0).Alloc(10 * unit.MB); err != nil {
		t.Error(err)
	}
}
