"""A region as a user's own program runs it."""
import torch
from torch.utils.checkpoint import checkpoint

from checkpointing import Cache, forgetful


def region(name, keep=()):
    """Runs f(*tensors) as one region: the tensors are kept, what f makes of them is made again in backward, but for the outputs
    of keep, which are kept: ops by ATen name and how many calls of that name come before."""
    how = {"use_reentrant": False}
    if keep:
        how["context_fn"] = Cache(name, keep).contexts

    def run(f, *tensors):
        return checkpoint(forgetful(f), *tensors, **how)
    return run


def saved_on_host(host):
    """Runs f so that each tensor that it saves goes to the host."""
    def run(f, *tensors):
        with host.hooks():
            return f(*tensors)
    return run


def inputs_on_host(host, run_region):
    """A region whose own inputs go to the host; what is saved inside does not exist until it is made again."""
    def run(f, *tensors):
        with host.hooks():
            return run_region(f, *tensors)
    return run
