package host

import (
	"fmt"
	"sync"

	"ckptplan/internal/gpu"
	"ckptplan/internal/unit"
)

// call is one launch as its kernel sees it: arguments to read, results to write.
type call struct {
	*gpu.Args
	in, out []view
	work    *gpu.Workspace
}

// Has reports whether there is a kernel of that name.
func Has(k gpu.Kernel) bool { return kernel(k) != nil }

func kernel(k gpu.Kernel) func(c *call) {
	if run := kernels[k]; run != nil {
		return run
	}
	return plainKernels[k]
}

// workspaces hold what kernels compute with; launches may overlap.
var workspaces = sync.Pool{New: func() any { return new(gpu.Workspace) }}

// Launch runs a kernel on tensors whose allocations memory gives. Any device whose memory Go can address can use these
// kernels. It is an error if a tensor reaches beyond its allocation.
func Launch(k gpu.Kernel, a *gpu.Args, memory func(gpu.DevicePtr) ([]byte, error)) error {
	run := kernel(k)
	if run == nil {
		return fmt.Errorf("the host device has no kernel %s", k)
	}
	work := workspaces.Get().(*gpu.Workspace)
	defer workspaces.Put(work)
	work.Reset()
	views := make([]view, len(a.In)+len(a.Out))
	for i := range views {
		t := gpu.Tensor{}
		if i < len(a.In) {
			t = a.In[i]
		} else {
			t = a.Out[i-len(a.In)]
		}
		views[i].Tensor = t
		if t.Ptr == 0 {
			continue
		}
		mem, err := memory(t.Ptr)
		if err != nil {
			return fmt.Errorf("kernel %s: %w", k, err)
		}
		if first, end := t.Span(); first < 0 || end*t.DType.Size() > int64(len(mem)) {
			return fmt.Errorf("kernel %s: elements %d to %d lie outside an allocation of %s", k, first, end, unit.Bytes(len(mem)).Both())
		}
		views[i].Mem, views[i].Work = mem, work
	}
	run(&call{a, views[:len(a.In)], views[len(a.In):], work})
	return nil
}
