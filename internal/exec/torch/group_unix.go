//go:build unix

package torch

import (
	osexec "os/exec"
	"syscall"
)

// inGroup starts the command in a process group of its own and asks the whole group to stop when its context ends: a
// Python behind a wrapper script is not the direct child. The returned function ends the rest of the group.
func inGroup(cmd *osexec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
