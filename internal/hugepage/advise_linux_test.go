package hugepage

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// The kernel's own list of mappings (proc_pid_smaps(5)) marks a slab's with hg: advised to use huge pages.
func TestAdvised(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no transparent huge pages")
	}
	s := Make[uint64](size / 8)
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer maps.Close()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	inside := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			if !strings.Contains(flags+" ", " hg ") {
				t.Errorf("the mapping of a slab has flags%s, want hg among them", flags)
			}
			return
		}
	}
	t.Error("no mapping holds the slab")
}
