"""How to run a part of a layer as a region.

The job says where the parts are in the Hugging Face classes; the plain models use the same names.
"""
import functools
import sys

import torch
from torch import nn
from torch.nn import functional


def layers(model):
    """The layers that plans count: a model's own list, or transformers' checkpointing layers in order."""
    if hasattr(model, "plan_layers"):
        return list(model.plan_layers)
    from transformers.modeling_layers import GradientCheckpointingLayer
    return [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]


class Whole:
    """A module's forward as one region: its positional arguments, or its first tensor, are what is kept; the rest comes
    with the call."""

    def __init__(self, module):
        self.module = module

    def wrap(self, run):
        forward = self.module.forward

        def region(*args, **kwargs):
            if args:  # the function that is kept must not hold them itself: what is around the region would keep them
                return run(functools.partial(forward, **kwargs), *args)
            name = next(k for k, v in kwargs.items() if isinstance(v, torch.Tensor))
            x = kwargs.pop(name)
            return run(lambda x: forward(**{name: x}, **kwargs), x)
        self.module.forward = region


class SelfAttention:
    """nn.MultiheadAttention, called with one tensor as query, key and value."""

    def __init__(self, module):
        self.module = module

    def wrap(self, run):
        forward = self.module.forward

        def region(query, key, value, **kwargs):
            return run(lambda x: forward(x, x, x, **kwargs), query)
        self.module.forward = region


class Method:
    """A method of one tensor."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name

    def wrap(self, run):
        method = getattr(self.owner, self.name)
        setattr(self.owner, self.name, lambda x: run(method, x))


class Together:
    """Parts that are one region each, such as the two attentions of an encoder-decoder's layer."""

    def __init__(self, parts):
        self.parts = parts

    def wrap(self, run):
        for part in self.parts:
            part.wrap(run)


class Row:
    """Modules that the layer calls one after another: the first call runs them all."""

    def __init__(self, modules):
        self.modules = modules

    def wrap(self, run):
        up, act, down = (m.forward for m in self.modules)
        for module in self.modules[1:]:
            module.forward = lambda x: x
        self.modules[0].forward = lambda x: run(lambda x: down(act(up(x))), x)


# Results that a Fan's readers have yet to take.
waiting = []


def forget():
    """A recompute that stops early leaves results that no reader comes for: they would live until the next forward."""
    for results in waiting:
        results.clear()


class Fan:
    """A module and the projections that read its output, though others call them: the first call runs them all, and
    each projection's own call takes the result that is there already.

    between are modules that the output passes first; followers are what a projection's result passes, by the
    projection's place: an activation, or a norm over each head.
    """

    def __init__(self, first, readers, between=(), followers=None):
        self.first, self.readers, self.between, self.followers = first, readers, between, followers or {}

    def wrap(self, run):
        first, between = forward_of(self.first), [forward_of(b) for b in self.between]
        readers = [forward_of(r) for r in self.readers]
        followers = {i: (f, forward_of(f)) for i, f in self.followers.items()}
        results = {}
        waiting.append(results)

        def compute(x):
            y = first(x)
            for b in between:
                y = b(y)
            outs = []
            for i, reader in enumerate(readers):
                out = reader(y)
                if i in followers:
                    out = follow(*followers[i], out)
                outs.append(out)
            return (y, *outs)

        def start(x):
            y, *outs = run(compute, x)
            results.update(enumerate(outs))
            return y
        set_forward(self.first, start)
        for b in (*self.between, *(f for f, _ in followers.values())):
            set_forward(b, lambda x: x)
        for i, reader in enumerate(self.readers):
            set_forward(reader, lambda _, i=i: results.pop(i))


def follow(module, forward, x):
    """A norm over heads sees [..., heads, width of a head]."""
    width = getattr(getattr(module, "weight", None), "shape", x.shape[-1:])[-1]
    if width == x.shape[-1]:
        return forward(x)
    return forward(x.view(*x.shape[:-1], -1, width)).view(x.shape)


def forward_of(module):
    return module.forward if isinstance(module, nn.Module) else getattr(*module)


def set_forward(module, f):
    if isinstance(module, nn.Module):
        module.forward = f
    else:
        setattr(*module, f)


class GatedDown:
    """act(g) * up(x) → down of a gated MLP, after g = gate(x)."""

    def __init__(self, mlp):
        self.mlp = mlp

    def wrap(self, run):
        m = self.mlp
        m.forward = lambda x: run(lambda g, x: m.down_proj(m.act_fn(g) * m.up_proj(x)), m.gate_proj(x), x)


class PackedDown:
    """The same where one projection makes gate and up (Phi-3)."""

    def __init__(self, mlp):
        self.mlp = mlp

    def wrap(self, run):
        m = self.mlp

        def down(states):
            gate, up = states.chunk(2, dim=-1)
            return m.down_proj(up * m.activation_fn(gate))
        m.forward = lambda x: run(down, m.gate_up_proj(x))


class AfterFirst:
    """What T5's MLP does after its first projection: the result of that is what is kept, and the input where a second one reads it."""

    def __init__(self, mlp):
        self.mlp = mlp

    def wrap(self, run):
        first = self.mlp.wi_0 if hasattr(self.mlp, "wi_0") else self.mlp.wi
        forward = self.mlp.forward

        def rest(y, *inputs):
            project, first.forward = first.forward, lambda _: y
            try:
                return forward(*inputs or (y,))
            finally:
                first.forward = project
        inputs = (lambda x: (x,)) if hasattr(self.mlp, "wi_1") else (lambda x: ())
        self.mlp.forward = lambda x: run(rest, first(x), *inputs(x))  # first may be part of another region by now


class Core:
    """softmax(q·kᵀ)·v: the attention function that a module calls with itself as the first argument."""

    def __init__(self, module):
        self.module = module

    def wrap(self, run):
        if hasattr(self.module, "core"):
            core = self.module.core
            forward = core.forward
            core.forward = lambda q, k, v, *rest: run(lambda q, k, v: forward(q, k, v, *rest), q, k, v)
            return
        functions_of(self.module)[id(self.module)] = run


class Kernel:
    """softmax(q·kᵀ)·v where the module calls PyTorch's function by its name."""

    def __init__(self, module):
        self.module = module

    def wrap(self, run):
        forward = self.module.forward

        def region(*args, **kwargs):
            attention = functional.scaled_dot_product_attention
            functional.scaled_dot_product_attention = lambda q, k, v, *rest, **kw: run(lambda q, k, v: attention(q, k, v, *rest, **kw), q, k, v)
            try:
                return forward(*args, **kwargs)
            finally:
                functional.scaled_dot_product_attention = attention
        self.module.forward = region


routed = {}


def functions_of(module):
    """The runners of a class's attention cores, by module; the class's attention function asks it from now on."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    source = sys.modules[type(module).__module__]
    name = module.config._attn_implementation
    key = source.__name__, name
    if key in routed:
        return routed[key]
    runs = routed[key] = {}
    own = getattr(source, "eager_attention_forward", None)
    inner = own if name == "eager" else ALL_ATTENTION_FUNCTIONS[name]

    def attention(module, query, key, value, mask, **kwargs):
        run = runs.get(id(module))
        if run is None:
            return inner(module, query, key, value, mask, **kwargs)
        return run(lambda q, k, v: inner(module, q, k, v, mask, **kwargs), query, key, value)
    if name == "eager":
        source.eager_attention_forward = attention
    else:
        ALL_ATTENTION_FUNCTIONS[name] = attention
    return runs


def find(layer, arch, parts, span):
    """The part of a layer that span names; None if it cannot run as one region. parts is the job's table: for each span how
    it runs and where its modules are (model.Part)."""
    if span == "layer":
        return Whole(layer)
    if isinstance(layer, nn.TransformerEncoderLayer):
        return encoder_part(layer, span)
    if arch == "torch-encoder":
        return block_part(layer, span)
    part = parts.get(span)
    if part is None:
        return None
    kind, paths = part["kind"], part["at"]
    if kind == "modules":
        return Together([Whole(at(layer, path)) for path in paths if has(layer, path)])
    if kind == "row":
        return Row([at(layer, path) for path in paths])
    if kind == "method":
        owner, _, name = paths[0].rpartition(".")
        return Method(at(layer, owner), name)
    if kind == "fan":
        return fan(layer, at(layer, paths[0]), part)
    kinds = {"module": Whole, "core": Core, "kernel": Kernel, "gated": GatedDown, "packed": PackedDown, "after first": AfterFirst}
    return kinds[kind](at(layer, paths[0]))


def fan(layer, first, part):
    owner = at(layer, part.get("owner", ""))
    names = [n for n in part["readers"] if hasattr(owner, n)]
    followers = {}
    for i, name in enumerate(names):
        follower = getattr(owner, {"q_proj": "q_norm", "k_proj": "k_norm", "gate_proj": "act_fn", "wi_0": "act"}.get(name, ""), None)
        if follower is not None:
            followers[i] = follower
    if any(getattr(getattr(f, "weight", None), "dim", lambda: 1)() > 1 for f in followers.values()):
        return None  # a norm whose weight has a row a head
    return Fan(first, [getattr(owner, n) for n in names], followers=followers)


def encoder_part(layer, span):
    """The parts of PyTorch's own encoder layer, whose MLP is a method and whose activation may be a function."""
    act = layer.activation
    return {
        "attn": lambda: SelfAttention(layer.self_attn),
        "core": lambda: Kernel(layer.self_attn),
        "mlp": lambda: Method(layer, "_ff_block"),
        "norm2": lambda: Fan(layer.norm2, [layer.linear1]),
        "act": lambda: Fan(act if isinstance(act, nn.Module) else (layer, "activation"), [layer.linear2], between=[layer.dropout]),
    }.get(span, lambda: None)()


def block_part(layer, span):
    """The parts of a hand-written block around nn.MultiheadAttention."""
    up, act, drop, down, _ = layer.mlp
    return {
        "attn": lambda: SelfAttention(layer.attn),
        "mlp": lambda: Whole(layer.mlp),
        "norm2": lambda: Fan(layer.norm2, [up]),
        "act": lambda: Fan(act, [down], between=[drop]),
    }.get(span, lambda: None)()


def at(module, path):
    """layer.-1.x counts a list from its end."""
    for name in filter(None, path.split(".")):
        module = module[int(name)] if name.lstrip("-").isdigit() else getattr(module, name)
    return module


def has(module, path):
    try:
        return at(module, path) is not None
    except (AttributeError, IndexError):
        return False
