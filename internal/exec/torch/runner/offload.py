"""Saved tensors on the host: moved there when autograd saves them, fetched when backward needs them."""
import torch
from torch.autograd.graph import saved_tensors_hooks

from refusal import Refusal


def saved(model, device):
    """Runs a part so that each tensor it saves goes to the host; nothing is recomputed."""
    host = host_of(model, device)

    def run(f, *tensors):
        with host.hooks():
            return f(*tensors)
    return run


def inputs(model, device, region):
    """A region whose own kept inputs go to the host; what is saved inside it does not exist until it is recomputed."""
    host = host_of(model, device)

    def run(f, *tensors):
        with host.hooks():
            return region(f, *tensors)
    return run


class Host:
    """Hooks that move saved tensors to pinned memory of the host and back, on a stream of their own; parameters stay."""

    def __init__(self, model, device):
        self.device = device
        self.stay = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.stream = torch.cuda.Stream(device)

    def hooks(self):
        return saved_tensors_hooks(self.send, self.fetch)

    def send(self, t):
        """A copy on a side stream, which waits for what made t and keeps t's block until it has read it."""
        if t.untyped_storage().data_ptr() in self.stay or t.device.type != "cuda":
            return t
        host = torch.empty_like(t, device="cpu", pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            host.copy_(t.detach(), non_blocking=True)
        t.record_stream(self.stream)
        done = self.stream.record_event()
        return host, done

    def fetch(self, kept):
        if isinstance(kept, torch.Tensor):
            return kept
        host, done = kept
        t = torch.empty_like(host, device=self.device)
        self.stream.wait_event(done)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))  # t's block may have been freed just now
        with torch.cuda.stream(self.stream):
            t.copy_(host, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return t


class MetaHost:
    """The same on meta, where only the layout is kept. A copy between devices packs a tensor with gaps first, on the device."""

    def __init__(self, model):
        self.stay = {p.untyped_storage()._cdata for p in model.parameters()}

    def hooks(self):
        return saved_tensors_hooks(self.note, self.make)

    def note(self, t):
        if t.untyped_storage()._cdata in self.stay:
            return t
        from meter_meta import is_dense
        if not is_dense(t):
            with torch.no_grad():
                t = t.contiguous()
        return t.shape, t.stride(), t.dtype

    def make(self, kept):
        if isinstance(kept, torch.Tensor):
            return kept
        shape, stride, dtype = kept
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def host_of(model, device):
    if device.type == "cpu":
        raise Refusal("unsupported", "offload needs a device with a memory of its own, which cpu is not")
    return MetaHost(model) if device.type == "meta" else Host(model, device)
