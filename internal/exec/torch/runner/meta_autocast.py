"""CUDA's autocast, applied to meta tensors.

The rules are those of PyTorch's "Autocast Op Reference" for CUDA: a list of ops that cast their inputs to 16 bits, one
of ops that cast to fp32, one of ops that ask for an fp32 result. An fp32 leaf that requires grad is cast once while the
context lives; anything else at every call. Where autocast meets an op inside a Python function of torch.nn.functional,
the function is entered.
"""
import contextlib

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

LOWER = frozenset("""__matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d conv3d
conv_transpose1d conv_transpose2d conv_transpose3d linear matmul mm mv prelu einsum""".split())
RAISE = frozenset("""__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin cosh cosine_similarity dist erfinv exp expm1 group_norm
kl_div l1_loss layer_norm log log10 log1p log2 mse_loss nll_loss norm pow reciprocal renorm rsqrt sinh smooth_l1_loss softplus
tan logsumexp""".split())
RAISE_RESULT = frozenset("softmax log_softmax cumprod cumsum prod sum".split())

# Modes that are active, innermost last; None stands for a region with autocast off.
active = []


def low_dtype():
    """The 16-bit type that autocast casts to here, or None."""
    return active[-1].low if active and active[-1] else None


@contextlib.contextmanager
def disabled():
    active.append(None)
    try:
        yield
    finally:
        active.pop()


def maybe_autocast(device_type=None, enabled=True, **_):
    """In place of transformers' function of this name, which asks the device."""
    return contextlib.nullcontext() if enabled else disabled()


class CudaAutocast(TorchFunctionMode):
    def __init__(self, low):
        super().__init__()
        self.low, self.weights = low, {}

    def __enter__(self):
        active.append(self)
        return super().__enter__()

    def __exit__(self, *e):
        active.pop()
        self.weights.clear()
        return super().__exit__(*e)

    def lower(self, x):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        if not (x.dtype == torch.float32 and x.requires_grad and x.is_leaf and not x._is_view()):
            return x.to(self.low)
        if id(x) not in self.weights:
            self.weights[id(x)] = x, x.to(self.low)
        return self.weights[id(x)][1]

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not active or active[-1] is not self:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in LOWER:
            args, kwargs = tree_map(self.lower, (args, kwargs))
        elif name in RAISE and not (name.endswith("pow") and not is_low(args[0])):
            args, kwargs = tree_map(lambda x: x.float() if is_low(x) else x, (args, kwargs))
        elif name in RAISE_RESULT and is_low(args[0]) and kwargs.get("dtype") is None:
            kwargs = {**kwargs, "dtype": torch.float32}
        elif name == "cross_entropy" and is_low(args[0]):
            return low_cross_entropy(*args, **kwargs)
        elif func is F.multi_head_attention_forward:
            return self.enter(func, args, kwargs)
        return func(*args, **kwargs)

    def enter(self, func, args, kwargs):
        """Runs the body of a Python function under this mode; has_torch_function would send it back here."""
        asks, F.has_torch_function = F.has_torch_function, lambda _: False
        try:
            with super_mode(self):
                return func(*args, **kwargs)
        finally:
            F.has_torch_function = asks


@contextlib.contextmanager
def super_mode(mode):
    """The mode again, without a new life of its weight casts."""
    TorchFunctionMode.__enter__(mode)
    try:
        yield
    finally:
        TorchFunctionMode.__exit__(mode, None, None, None)


def is_low(x):
    return isinstance(x, torch.Tensor) and x.dtype in (torch.bfloat16, torch.float16)


def low_cross_entropy(scores, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    """cross_entropy_loss calls log_softmax with its input's dtype, which autocast leaves alone, and nll_loss in fp32."""
    if label_smoothing:
        from refusal import Refusal
        raise Refusal("unsupported", "label smoothing under autocast is not known on the meta device")
    logp = torch.log_softmax(scores, 1, dtype=scores.dtype)
    return F.nll_loss(logp.float(), target, weight=weight, ignore_index=ignore_index, reduction=reduction)
