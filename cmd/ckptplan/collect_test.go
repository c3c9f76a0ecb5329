package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// After the first cycle of the collector the limit is gone and the heap may grow by its own size between cycles.
func TestCollectLate(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	collectLate(1 << 40)
	if now := debug.SetMemoryLimit(-1); now != 1<<40 {
		t.Fatalf("the limit is %d before anything is collected", now)
	}
	runtime.GC()
	for end := time.Now().Add(10 * time.Second); debug.SetMemoryLimit(-1) != math.MaxInt64; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the limit stays after a cycle")
		}
	}
	if now := debug.SetGCPercent(100); now != 100 {
		t.Errorf("the collector's percentage is %d, want 100", now)
	}
}
