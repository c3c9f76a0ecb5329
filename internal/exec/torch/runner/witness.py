"""Watches regions run twice, and says what was not the same the second time."""
import hashlib

import torch


class Witness:
    """Compares what a region starts from in forward and in its recompute: inputs, random state, autocast."""

    def __init__(self):
        self.watching, self.first, self.seen = False, {}, []

    def start(self):
        self.watching, self.first, self.seen = True, {}, []

    def stop(self):
        self.watching = False

    def watch(self, name, f):
        def watched(*tensors):
            if self.watching:
                self.compare(name, start_of(tensors))
            return f(*tensors)
        return watched

    def compare(self, name, now):
        then = self.first.setdefault(name, now)
        for what, value in now.items():
            if value != then[what] and not any(s["region"] == name and s["differs"] == what for s in self.seen):
                self.seen.append({"region": name, "differs": what})


def start_of(tensors):
    kinds = {t.device.type for t in tensors if isinstance(t, torch.Tensor)} | {"cpu"}
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    if "cuda" in kinds:
        state.update(torch.cuda.get_rng_state().numpy().tobytes())
    return {
        "precision": [(k, torch.is_autocast_enabled(k), str(torch.get_autocast_dtype(k))) for k in sorted(kinds)],
        "random state": state.hexdigest(),
        "input": [float(t.detach().double().abs().sum()) for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point()],
    }
