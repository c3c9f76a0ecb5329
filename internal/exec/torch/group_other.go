//go:build !unix

package torch

import osexec "os/exec"

// inGroup ends only the direct child: this system has no process groups.
func inGroup(*osexec.Cmd) (end func()) { return func() {} }
