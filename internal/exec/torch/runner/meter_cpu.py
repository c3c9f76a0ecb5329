"""A real run on the CPU, measured by PyTorch's own profiler: every allocation and release of the CPU allocator."""
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function


class ProfilerMeter:
    """Peaks are what lives through the whole step (weights, batch, optimizer state) plus the highest sum of the
    profiler's events in a phase."""

    def __init__(self):
        self.tensors, self.static = [], 0
        self.mark, self.events, self.marks = None, [], []

    def __enter__(self):
        return self

    def __exit__(self, *e):
        pass

    def holds(self, tensors):
        self.tensors = list(tensors)

    def enter(self, phase):
        if self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None
        if phase:
            self.mark = record_function("phase: " + phase)
            self.mark.__enter__()

    def measure(self, step):
        held = self.tensors + (state_tensors(step.optimizer) if step.optimizer is not None else [])
        self.static = storage_bytes(held)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            step.run(self)
        for e in profiled.profiler.kineto_results.events():
            if e.name() == "[memory]":
                self.events.append((e.start_ns(), e.nbytes()))
            elif e.name().startswith("phase: "):
                self.marks.append((e.start_ns(), e.name().removeprefix("phase: ")))
        self.events.sort(key=lambda e: e[0])
        self.marks.sort()

    def time(self, step, steps, count, enough_ns):
        times = []
        while len(times) < steps and not (enough_ns and sum(times) >= enough_ns):
            count.next("timed")
            began = time.perf_counter_ns()
            step.run(self)
            times.append(time.perf_counter_ns() - began)
        return times

    def result(self):
        live, phase, peaks, before_backward = self.static, None, {}, self.static
        marks = iter(self.marks + [(float("inf"), None)])
        at, following = next(marks)
        for when, n in self.events:
            while when >= at:
                if following == "backward":
                    before_backward = live
                phase = following
                peaks[phase] = max(peaks.get(phase, 0), live)
                at, following = next(marks)
            live += n
            if phase:
                peaks[phase] = max(peaks[phase], live)
        peak = max(peaks, key=peaks.get)
        return {
            "peak": {"tensor_bytes": peaks[peak], "phase": peak}, "phases": {p: {"tensor_bytes": n} for p, n in peaks.items()},
            "before_backward": {"tensor_bytes": before_backward}, "unexplained_bytes": live - self.static,
        }


def state_tensors(optimizer):
    return [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]


def storage_bytes(tensors):
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())
