//go:build !linux

package hugepage

// advise does nothing: the kernel decides by itself.
func advise(from, to uintptr) {}
