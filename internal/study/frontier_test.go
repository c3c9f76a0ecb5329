package study

import (
	"testing"

	"ckptplan/internal/unit"
)

// stair is a frontier of n points, 1 MiB and 1 ms apart, over a step of 1 s.
func stair(n int) *Frontier {
	f := &Frontier{base: 1e9}
	for i := range n {
		f.Points = append(f.Points, f.point(unit.Bytes(100+i)*unit.MiB, int64(n-1-i)*1e6, 1000))
	}
	return f
}

// A strategy at 150.5 MiB with 80 ms is compared with the point of 150 MiB, which has 49 ms: 1080/1049 − 1. The first
// point with at most 80 ms is that of 119 MiB.
func TestHold(t *testing.T) {
	f := stair(100)
	n := NamedStrategy{FrontierPoint: f.point(150*unit.MiB+unit.MiB/2, 80e6, 1000)}
	f.hold(&n)
	if want := 1080.0/1049 - 1; n.Behind == nil || *n.Behind < want-1e-12 || *n.Behind > want+1e-12 {
		t.Errorf("behind %v, want %g", n.Behind, want)
	}
	if want := 150*unit.MiB + unit.MiB/2 - 119*unit.MiB; n.MoreBytes != want {
		t.Errorf("more %d, want %d", n.MoreBytes, want)
	}
	low := NamedStrategy{FrontierPoint: f.point(99*unit.MiB, 200e6, 1000)}
	if f.hold(&low); low.Behind != nil {
		t.Error("no point is below 99 MiB")
	}
}
