package hugepage

import "syscall"

// advise asks for huge pages between two addresses of the heap. An error means that the kernel has none.
func advise(from, to uintptr) {
	const hugePage = 14 // MADV_HUGEPAGE
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, hugePage)
}
