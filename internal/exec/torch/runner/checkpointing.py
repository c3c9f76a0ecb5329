"""A region under torch.utils.checkpoint, without re-entrance."""
import collections
import contextlib
import functools

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import parts
from refusal import Refusal


class Checkpointing:
    """How regions run: under which autocast they are recomputed, and who watches them.

    plant puts one of the classic mistakes in, so that a test sees it found: "random state" does not restore the
    generator, "in place" changes a region's input, "precision" recomputes under another autocast.
    """

    def __init__(self, casts, witness, plant=None):
        self.casts, self.witness, self.plant = casts, witness, plant
        self.caches = []

    def region(self, name, cached=()):
        """A function that runs f(*tensors) as region name, keeping the outputs of the cached ops."""
        cache = None
        if cached:
            cache = Cache(name, cached)
            self.caches.append(cache)
        return functools.partial(self.run, name, cache)

    def run(self, name, cache, f, *tensors):
        if self.plant == "in place":
            f = changes_its_input(f)
        return checkpoint(
            self.witness.watch(name, forgetful(f)), *tensors, use_reentrant=False, preserve_rng_state=self.plant != "random state",
            context_fn=functools.partial(self.contexts, cache),
        )

    def contexts(self, cache):
        forward, recompute = cache.contexts() if cache else (contextlib.nullcontext(), contextlib.nullcontext())
        casts = self.casts.recompute()
        if self.plant == "precision":
            kind = self.casts.device.type
            casts = self.casts.off() if self.casts.low else torch.autocast(kind, dtype=torch.bfloat16)
        return forward, Both(casts, recompute)

    def all_cached_ops_ran(self):
        for cache in self.caches:
            if missing := cache.wanted - cache.met:
                names = ", ".join(f"{op} number {n + 1}" for op, n in sorted(missing))
                raise Refusal("unsupported", f"{cache.name}: the model has no {names} to cache")


class Both:
    """Two contexts as one, kept until the checkpoint drops them.

    A cached output that the recompute, which stops early, does not ask for lives as long as the recompute's context.
    PyTorch keeps that context until the last node of the region; a generator would drop it after the recompute.
    """

    def __init__(self, *contexts):
        self.contexts = contexts
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        for c in self.contexts:
            self.stack.enter_context(c)

    def __exit__(self, *error):
        return self.stack.__exit__(*error)


def forgetful(f):
    """An early stop is an exception through the region."""
    def run(*tensors):
        try:
            return f(*tensors)
        except BaseException:
            parts.forget()
            raise
    return run


def changes_its_input(f):
    def changed(x, *rest):
        x.data.mul_(0.5)
        return f(x, *rest)
    return changed


class Cache:
    """A policy that saves ops by ATen name and place among the calls of that name."""

    def __init__(self, name, cached):
        self.name = name
        self.wanted = {(c["op"], c["ordinal"]) for c in cached}
        self.met = set()

    def contexts(self):
        calls = {False: collections.Counter(), True: collections.Counter()}

        def policy(context, op, *args, **kwargs):
            name = op._schema.name.replace("::", ".")
            seen = calls[context.is_recompute]
            call = name, seen[name]
            seen[name] += 1
            if call not in self.wanted:
                return CheckpointPolicy.PREFER_RECOMPUTE
            self.met.add(call)
            return CheckpointPolicy.MUST_SAVE

        return create_selective_checkpoint_contexts(policy)
