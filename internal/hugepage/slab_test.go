package hugepage

import "testing"

func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, 100, worthwhile / 8, 1 << 18} {
		s := Make[uint64](n)
		if len(s) != 0 || cap(s) < n {
			t.Fatalf("Make(%d): length %d, capacity %d", n, len(s), cap(s))
		}
		for i := range n {
			s = append(s, uint64(i))
		}
		for i, v := range s {
			if v != uint64(i) {
				t.Fatalf("element %d holds %d", i, v)
			}
		}
	}
}
