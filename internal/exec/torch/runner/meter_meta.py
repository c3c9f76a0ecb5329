"""Tensor bytes without a device: the births and deaths of the storages that ATen makes on meta tensors.

What a kernel allocates inside itself and the allocator's rounding are not seen.
"""
import gc
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cuda_ops import APART, INSTEAD

aten = torch.ops.aten


class StorageMeter:
    """Counts the bytes of all live storages."""

    def __init__(self):
        self.live, self.sizes = 0, {}
        self.phase, self.peaks, self.before_backward = None, {}, 0
        self.static = 0
        self.watching = Watch(self)

    def __enter__(self):
        self.watching.__enter__()
        return self

    def __exit__(self, *e):
        self.watching.__exit__(*e)

    def enter(self, phase):
        gc.collect()  # what only a reference cycle holds is not the model's
        if phase == "backward":
            self.before_backward = self.live
        self.phase = phase
        if phase:
            self.peak("")

    def measure(self, step):
        self.peaks = {}
        step.run(self)

    def peak(self, op):
        if self.phase and self.live > self.peaks.get(self.phase, (-1,))[0]:
            self.peaks[self.phase] = self.live, op

    def count(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.sizes:
            self.sizes[key] = storage.nbytes()
            self.live += self.sizes[key]
            weakref.finalize(storage, self.forget, key)

    def forget(self, key):
        self.live -= self.sizes.pop(key, 0)

    def move(self, old, new):
        """new is old, changed in place."""
        storage = new.untyped_storage()
        key = old.untyped_storage()._cdata
        self.sizes[storage._cdata], self.sizes[key] = self.sizes[key], 0
        weakref.finalize(storage, self.forget, storage._cdata)

    def holds(self, tensors):
        for t in tensors:
            self.count(t)

    def result(self):
        peak = max(self.peaks, key=lambda p: self.peaks[p][0])
        return {
            "peak": {"tensor_bytes": self.peaks[peak][0], "phase": peak, "op": self.peaks[peak][1]},
            "phases": {p: {"tensor_bytes": n} for p, (n, _) in self.peaks.items()},
            "before_backward": {"tensor_bytes": self.before_backward},
        }


# What index_backward and value_selecting_reduction_backward write into zeros that they made. They do so out of place for
# a tensor that is like a subclass, as all are under a mode (torch/csrc/autograd/FunctionsManual.cpp).
INTO_ZEROS = {aten.index_put.default: aten.index_put_.default, aten.scatter.src: aten.scatter_.src}


class Watch(TorchDispatchMode):
    """Shows the meter every ATen call's outputs."""

    def __init__(self, meter):
        super().__init__()
        self.meter = meter
        self.alone = references_of_a_sum()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        in_place = self.engine_sums_in_place(func, args)
        if self.engine_runs():
            func = INTO_ZEROS.get(func, func)
        if func in APART:
            with self:
                out = APART[func](*args, **kwargs)
        else:
            out = INSTEAD.get(func, func)(*args, **kwargs)
        outputs = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        if in_place:
            self.meter.move(args[0], outputs[0])
        for x in outputs:
            self.meter.count(x)
        self.meter.peak(str(func))
        return out

    def engine_runs(self):
        """Is this call a backward formula's or the engine's own, and not one that a checkpoint makes again?"""
        return self.meter.phase == "backward" and not torch.is_grad_enabled()

    def engine_sums_in_place(self, func, args):
        """Is this the engine's own sum of two gradients of one tensor, which a real run adds in place?

        It does so if nothing else refers to the first gradient, which must be dense and own its storage
        (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace). Under a mode it is an ordinary sum.
        """
        if func is not aten.add.Tensor or not self.engine_runs() or len(args) != 2:
            return False
        old, new = args
        return (
            isinstance(new, torch.Tensor) and old.shape == new.shape and old.dtype == new.dtype and is_dense(old)
            and references(old) == self.alone and old.untyped_storage()._cdata in self.meter.sizes
        )


def references(t):
    return t._use_count(), torch._C._storage_Use_Count(t.untyped_storage()._cdata)


def is_dense(t):
    """Without gaps or overlaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(t.stride(), t.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def references_of_a_sum():
    """The references that a mode sees of a gradient which only the engine holds."""
    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is aten.add.Tensor and not torch.is_grad_enabled():
                seen.append(references(args[0]))
            return func(*args, **(kwargs or {}))

    with Look():
        x = torch.ones(2, device="meta", requires_grad=True).exp()
        (x.exp() + x.cos()).sum().backward()
    return seen[-1]
