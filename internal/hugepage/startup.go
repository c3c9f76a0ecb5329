package hugepage

import "unsafe"

// What packages allocate while they are initialised, flags and commands among it, goes to one huge page: the heap is
// filled up to the next one, with memory that is never touched, and that page is advised. Go initialises a package as
// soon as its imports are, in the order of paths, so that this one comes before nearly all others.
func init() {
	const (
		page = 8 << 10 // of Go's heap
		kept = 64      // pages that a processor keeps at hand for spans of less than 16 of them
		some = 9       // pages: less than 16, and more than the 64 kB that may be on the stack
	)
	for range kept / some {
		end(make([]byte, some*page))
	}
	top := end(make([]byte, 16*page))
	next := down(top + size - 1)
	filled := end(make([]byte, next-top+page)) // one page more: the heap grows, and the advice meets mapped memory
	advise(down(filled-1), down(filled-1)+size)
}

// end is the address behind a slice.
func end(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) + uintptr(len(b)) }
