"""Runs one forward and backward of a job and prints, by layer's matrix product, the type of each result in the order
that the products ran: recompute_dtypes.py RUNNER_FOLDER JOB.json."""
import collections
import json
import sys

sys.path.insert(0, sys.argv[1])
with open(sys.argv[2]) as f:
    job = json.load(f)

import torch
from torch.utils.checkpoint import CheckpointError

import devices
import parts
import session

s = session.Session(job, devices.acquire(job))
seen = collections.defaultdict(list)
for i, layer in enumerate(parts.layers(s.model)):
    for name, module in layer.named_modules():
        if getattr(module, "weight", None) is not None and module.weight.dim() == 2:
            module.register_forward_hook(lambda _m, _in, out, key=f"{i} {name}": seen[key].append(str(out.dtype).removeprefix("torch.")))
with s.meter if job["device"] == "meta" else torch.enable_grad():
    try:
        s.step.gradients()
    except CheckpointError:
        pass  # PyTorch saw that the types differ: what ran until then is shown
json.dump(seen, sys.stdout)
