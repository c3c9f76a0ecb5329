"""On the meta device: the ATen calls that a CUDA device would dispatch.

Composite functions choose their kernels by device. On meta tensors they would choose another device's, so dropout and
attention are sent to CUDA's kernels here, and kernels that allocate through other ATen calls are taken apart.
Sources: aten/src/ATen/native/Dropout.cpp, SoftMax.cpp, transformers/cuda/sdp_utils.cpp, transformers/attention.cpp.
"""
import torch
import torch.nn.functional as F

import meta_autocast

aten = torch.ops.aten


def install(attention):
    """Sends torch.nn.functional's dropout, softmax and attention to CUDA's kernels. attention: sdpa, or math for the fallback."""
    F.dropout = dropout
    F.softmax = softmax
    F.scaled_dot_product_attention = math_or_fused if attention != "math" else math_only


def dropout(input, p=0.5, training=True, inplace=False):
    if not training or p == 0:
        return input
    return torch.native_dropout(input, p, True)[0]


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """CUDA's kernel takes fp16 to fp32 itself (SoftMax.cpp, softmax); any other device casts first. Autocast asks for an
    fp32 result where the caller names no dtype."""
    if dtype is None and meta_autocast.low_dtype() is not None and input.dtype == torch.float16:
        dtype = torch.float32
    if input.dtype == torch.float16 and dtype == torch.float32:
        return aten._softmax.default(input, dim, True)
    return input.softmax(dim, dtype=dtype)


def math_only(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    query, key, value, attn_mask = lowered(query, key, value, attn_mask)
    with meta_autocast.disabled():
        return math(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def math_or_fused(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    query, key, value, attn_mask = lowered(query, key, value, attn_mask)
    width = query.shape[-1]
    flash = attn_mask is None and meta_autocast.is_low(query) and width <= 256 and value.shape[-1] == width
    pieces = 16 // query.element_size()  # efficient takes heads of whole 16-byte pieces
    aligned = width % pieces == 0 and value.shape[-1] % pieces == 0
    if query.shape[1] != key.shape[1] and not enable_gqa or not flash and not aligned:  # neither fused kernel broadcasts heads unasked
        with meta_autocast.disabled():
            return math(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    scale = width ** -0.5 if scale is None else scale
    if flash:
        short = -width % 8  # flash takes heads of a multiple of 8; what autocast cast lives on, as the op's arguments
        padded = [F.pad(x, (0, short)) if short else x for x in (query, key, value)]
        context = aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, False, scale=scale)[0]
        return context[..., :width] if short else context
    bias = attn_mask
    if bias is not None:
        bias = additive(bias, query.dtype)
        keys = bias.shape[-1]
        if keys % 16:  # rows of a bias are aligned to 16 elements
            bias = F.pad(bias, (0, -keys % 16))[..., :keys]
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], keys)
    return aten._scaled_dot_product_efficient_attention(query, key, value, bias, True, dropout_p, is_causal, scale=scale)[0]


def lowered(*tensors):
    """SDPA is one of the ops that autocast lowers."""
    low = meta_autocast.low_dtype()
    if low is None:
        return tensors
    return [x.to(low) if x is not None and x.is_floating_point() else x for x in tensors]


def additive(mask, dtype):
    """A boolean mask as one that is added to scores."""
    if mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device))


def math(query_, key_, value_, mask, p, is_causal, scale, enable_gqa):
    """_scaled_dot_product_attention_math with the locals of its C++ frame: 16-bit inputs are raised to fp32, queries
    and keys are scaled by √scale each, the mask is added in place, dropout is one kernel."""
    given = query_.dtype
    query, key, value = (x.float() if meta_autocast.is_low(x) else x for x in (query_, key_, value_))
    root = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    if mask is not None:
        mask = additive(mask, given)
    scaled = query * root
    if is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        mask = additive(mask, query.dtype)
    keys, values = key, value
    if enable_gqa and query.shape[1] != key.shape[1]:
        groups = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = torch.matmul(scaled, keys.transpose(-2, -1) * root)
    if mask is not None:
        scores.add_(mask)
    weights = torch._safe_softmax(scores, -1)
    scores = weights  # C++ assigns the result to the same variable
    weights = dropout(weights, p)
    scores = weights
    returned = weights.to(given)  # the second result, which SDPA drops
    return torch.matmul(weights, values).to(given)


def safe_softmax(x, dim, dtype=None):
    """_safe_softmax: a softmax whose rows of −∞ throughout become zeros, found by a boolean of the input's size, a local
    of its C++ frame (SoftMax.cpp)."""
    out = aten._softmax.default(x if dtype is None else x.to(dtype), dim, False)
    masked = aten.isneginf.default(x)
    empty = aten.all.dim(masked, dim, True)
    return aten.where.self_out(empty, aten.scalar_tensor.default(0.0, dtype=out.dtype, device=out.device), out, out=out)


def mse_loss(x, target, reduction=1):
    """mse_loss with a mean: the result is as large as the input and then resized to a scalar, which keeps its storage;
    the elements' losses are a second tensor."""
    if reduction == 0:
        return aten.mse_loss.default(x, target, 0)
    result = torch.empty_like(x).resize_(())
    losses = torch.empty_like(x)
    del losses
    return result


def grouped_mm(a, b, offsets=None, *rest):
    """_grouped_mm on meta knows bf16 only; CUDA multiplies other types expert by expert into one output."""
    if a.dtype == torch.bfloat16:
        return aten._grouped_mm.default(a, b, offsets, *rest)
    shape = (a.shape[0], b.shape[-1]) if b.dim() == 3 else (offsets.shape[0], a.shape[0], b.shape[1])
    return torch.empty(shape, dtype=a.dtype, device=a.device)


# Kernels to be taken apart under the meter, and kernels that meta lacks.
APART = {aten._safe_softmax.default: safe_softmax, aten.mse_loss.default: mse_loss}
INSTEAD = {aten._grouped_mm.default: grouped_mm} if hasattr(aten, "_grouped_mm") else {}
