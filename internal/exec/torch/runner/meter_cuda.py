"""A real run on a CUDA device, measured by the caching allocator's counters and by the driver."""
import torch


class AllocatorMeter:
    """tensor_bytes are tensors as they were asked for, with the workspaces that libraries take from the allocator;
    allocated_bytes are its blocks; reserved_bytes its segments; device_bytes what the driver counts beyond what others
    used before this process began, absent where that is not known."""

    def __init__(self, device, others):
        self.device, self.others, self.phase = device, others, None
        self.peaks, self.before_backward, self.device_peak = {}, {}, 0

    def __enter__(self):
        return self

    def __exit__(self, *e):
        pass

    def holds(self, tensors):
        pass

    def enter(self, phase):
        torch.cuda.synchronize(self.device)
        stats = torch.cuda.memory_stats(self.device)
        if self.phase:
            self.close(stats)
        if phase == "backward":
            self.before_backward = {"tensor_bytes": stats["requested_bytes.all.current"], "allocated_bytes": stats["allocated_bytes.all.current"]}
        self.phase = phase
        torch.cuda.reset_peak_memory_stats(self.device)

    def close(self, stats):
        now = {
            "tensor_bytes": stats["requested_bytes.all.peak"], "allocated_bytes": stats["allocated_bytes.all.peak"],
            "reserved_bytes": stats["reserved_bytes.all.peak"],
        }
        old = self.peaks.get(self.phase, {})
        self.peaks[self.phase] = {k: max(v, old.get(k, 0)) for k, v in now.items()}
        free, total = torch.cuda.mem_get_info(self.device)
        self.device_peak = max(self.device_peak, total - free - (self.others or 0))

    def measure(self, step):
        self.peaks, self.device_peak = {}, 0
        step.run(self)

    def time(self, step, steps, count, enough_ns):
        """Device times between events, without synchronisation inside a step, so that it is not known when it is enough."""
        count.rest("timed")
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        silent = Silent()
        torch.cuda.synchronize(self.device)
        marks[0].record()
        for mark in marks[1:]:
            step.run(silent)
            mark.record()
        torch.cuda.synchronize(self.device)
        return [int(a.elapsed_time(b) * 1e6) for a, b in zip(marks, marks[1:])]

    def result(self):
        peak = max(self.peaks, key=lambda p: self.peaks[p]["tensor_bytes"])
        highest = {k: max(p[k] for p in self.peaks.values()) for k in ("tensor_bytes", "allocated_bytes", "reserved_bytes")}
        device = {} if self.others is None else {"device_bytes": self.device_peak}
        stats = torch.cuda.memory_stats(self.device)
        return {
            "peak": {**highest, **device, "phase": peak}, "phases": self.peaks, "before_backward": self.before_backward,
            "allocation_retries": stats["num_alloc_retries"],
        }


class Silent:
    def enter(self, phase):
        pass

