"""A plan's regions, wrapped around the parts of a model's layers."""
from torch.utils.checkpoint import CheckpointError

import offload
import parts
from refusal import Refusal


def apply(model, spec, module, nodes, how, device):
    if nodes:
        if any(recomputes_layers(node) for node in nodes):
            tell_class(model)
        Plan(model, spec, module, how, device).nodes(nodes)


def recomputes_layers(node):
    return node.get("segment") or any(r["span"] == "layer" and r.get("offload") != "saved" for r in node.get("regions") or [])


def tell_class(model):
    """What gradient_checkpointing_enable tells the modules that are not layers: T5's cross-attention then has its position
    bias of zeros take a gradient (modeling_t5.py, T5Attention.forward)."""
    layers = parts.layers(model)
    for module in model.modules():
        if hasattr(module, "gradient_checkpointing") and not any(module is layer for layer in layers):
            module.gradient_checkpointing = True


class Plan:
    def __init__(self, model, spec, module, how, device):
        self.model, self.spec, self.how, self.device = model, spec, how, device
        self.module = module or {}
        self.layers = parts.layers(model)

    def nodes(self, nodes):
        for node in nodes:
            if node["last"] >= len(self.layers):
                raise Refusal("unsupported", f"the model has {len(self.layers)} layers, the plan names layer {node['last']}")
            if node.get("segment"):
                self.nodes(node.get("inner") or [])
                self.segment(node["first"], node["last"])
                continue
            for i in range(node["first"], node["last"] + 1):
                for region in node.get("regions") or []:
                    self.part(i, region)

    def part(self, i, region):
        layer, span = self.layers[i], region["span"]
        name = f"layer {i}" if span == "layer" else f"layer {i}, {span}"
        where = parts.find(layer, self.spec["arch"], self.module.get("parts") or {}, span)
        if where is None:
            raise Refusal("unsupported", f"{name}: the torch engine does not run this part of {self.spec['arch']} as one region")
        how = region.get("offload")
        if how == "saved":
            where.wrap(offload.saved(self.model, self.device))
        elif how == "inputs":
            where.wrap(offload.inputs(self.model, self.device, self.how.region(name)))
        else:
            where.wrap(self.how.region(name, region.get("cached") or ()))

    def segment(self, first, last):
        if self.spec.get("decoder_L"):
            raise Refusal("unsupported", "segments of t5: its layers hand a position bias to the next, so that they are no chain")
        run = self.how.region(f"layers {first} to {last}")
        Segment(self.layers[first:last + 1], run, self.module.get("tuple")).wrap()


class Segment:
    """Consecutive layers as one region, whatever loop calls them: all but the last only note what they are called with
    and hand their input on; the last runs them all."""

    def __init__(self, layers, run, tuples):
        self.layers, self.run, self.tuples = layers, run, tuples
        self.calls = []

    def wrap(self):
        forwards = [layer.forward for layer in self.layers]
        for layer, forward in zip(self.layers[:-1], forwards):
            layer.forward = self.later(forward)
        self.layers[-1].forward = self.now(forwards[-1])

    def later(self, forward):
        def noted(x, *args, **kwargs):
            self.calls.append((forward, args, kwargs))
            return (x, None) if self.tuples else x
        return noted

    def now(self, forward):
        def all_layers(x, *args, **kwargs):
            calls, self.calls = self.calls + [(forward, args, kwargs)], []

            def chain(x):
                for f, a, k in calls:
                    y = f(x, *a, **k)
                    x = y[0] if isinstance(y, tuple) else y
                return y
            return self.run(chain, x)
        return all_layers


def explain(error, witness):
    """The refusal that a failed backward stands for."""
    text = str(error).split("\n")[0]
    if "inplace operation" in text:
        return Refusal("in_place", f"an op changes a tensor in place that backward needs: {text}", observations=witness.seen)
    if isinstance(error, CheckpointError):
        return Refusal("recompute", f"a region's recompute does not make the tensors that its forward made: {text}", observations=witness.seen)
    return error
