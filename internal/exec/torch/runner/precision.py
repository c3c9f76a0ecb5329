"""Autocast: the real one on cpu and cuda, CUDA's rules applied by hand on meta tensors, which no autocast knows."""
import contextlib

import torch

import meta_autocast


class Casts:
    """The autocast state of the forward pass; a checkpoint's recompute must run under the same."""

    def __init__(self, spec, device):
        self.device = device
        low = spec["dtype"].removeprefix("amp-") if spec["dtype"].startswith("amp-") else None
        self.low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(spec.get("autocast") or low)
        self.on_meta = self.low is not None and device.type == "meta"

    def forward(self):
        if self.low is None:
            return contextlib.nullcontext()
        if self.on_meta:
            return meta_autocast.CudaAutocast(self.low)
        return torch.autocast(self.device.type, dtype=self.low)

    def recompute(self):
        """What torch.utils.checkpoint does not restore by itself."""
        return meta_autocast.CudaAutocast(self.low) if self.on_meta else contextlib.nullcontext()

    def off(self):
        if self.on_meta:
            return meta_autocast.disabled()
        return torch.autocast(self.device.type, enabled=False)


def weights_dtype(dtype):
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)


def exact_products():
    """Nothing is to differ between two runs but the plan: no TF32, no choice of kernels by speed, and on the CPU one
    thread, so that sums are added in one order."""
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
