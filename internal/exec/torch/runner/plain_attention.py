"""Attention of the plain models: cores, causal masks, rotary positions."""
import torch
import torch.nn.functional as F
from torch import nn

from plain_parts import Conv1D, RMSNorm


def causal_mask(shape, like):
    """Added to scores, [B, 1, S, S]."""
    batch, length = shape
    steps = torch.arange(length, device=like.device)
    seen = (steps[None, :] <= steps[:, None])[None, None]
    lowest = torch.finfo(like.dtype).min
    return torch.where(seen.expand(batch, 1, length, length), torch.tensor(0.0, device=like.device, dtype=like.dtype), lowest)


def repeated(x, groups):
    """As many key heads as query heads."""
    if groups == 1:
        return x
    b, heads, length, width = x.shape
    return x[:, :, None].expand(b, heads, groups, length, width).reshape(b, heads * groups, length, width)


class Core(nn.Module):
    """softmax(q·kᵀ/√D + mask)·v over [B, heads, S, D]; the context comes back as [B, S, heads, D] with the weights."""

    def __init__(self, s, causal, fp32_softmax=False, contiguous=True, cast=True):
        super().__init__()
        self.kind, self.causal, self.contiguous = s["attention"], causal, contiguous
        self.fp32, self.cast = fp32_softmax, cast  # softmax in fp32; its result, which autocast leaves in fp32, to the type of v
        self.p, self.groups = s["dropout"]["attention"], s["heads"] // s["kv_heads"]

    def forward(self, q, k, v, mask, positions=None):
        p = self.p if self.training else 0.0
        if self.kind != "eager":
            o = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=self.causal, enable_gqa=self.groups > 1)
            return o.transpose(1, 2).contiguous(), None
        keys, values = repeated(k, self.groups), repeated(v, self.groups)
        weights = torch.matmul(q, keys.transpose(2, 3)) * q.shape[-1] ** -0.5  # one variable, as in the classes: scores die early
        if mask is not None:
            weights = weights + mask
        if self.fp32:
            weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        else:
            weights = F.softmax(weights, dim=-1)
            if self.cast:
                weights = weights.to(values.dtype)
        weights = F.dropout(weights, p, self.training)
        o = torch.matmul(weights, values).transpose(1, 2)
        return (o.contiguous() if self.contiguous else o), weights


class GPT2Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        h = s["H"]
        self.h, self.width = h, s["head_dim"]
        self.c_attn, self.c_proj = Conv1D(3 * h, h), Conv1D(h, h)
        self.core = Core(s, causal=True, contiguous=False)
        self.resid_dropout = nn.Dropout(s["dropout"]["residual"])

    def forward(self, x, mask, positions):
        q, k, v = self.c_attn(x).split(self.h, dim=2)
        heads = (*q.shape[:-1], -1, self.width)
        k, v, q = k.view(heads).transpose(1, 2), v.view(heads).transpose(1, 2), q.view(heads).transpose(1, 2)
        o, weights = self.core(q, k, v, mask, positions)
        o = o.reshape(*o.shape[:-2], -1).contiguous()
        o = self.c_proj(o)
        return self.resid_dropout(o), weights


class LlamaAttention(nn.Module):
    def __init__(self, s):
        super().__init__()
        h, width, bias = s["H"], s["head_dim"], s["bias"]
        self.width = width
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(h, n * width, bias["qkv"]) for n in (s["heads"], s["kv_heads"], s["kv_heads"]))
        self.o_proj = nn.Linear(s["heads"] * width, h, bias["out"])
        if s["qk_norm"]:
            self.q_norm, self.k_norm = RMSNorm(width), RMSNorm(width)
        self.normed = s["qk_norm"]
        self.core = Core(s, causal=True, fp32_softmax=True)

    def forward(self, x, table, mask, positions):
        heads = (*x.shape[:-1], -1, self.width)
        q, k, v = self.q_proj(x).view(heads), None, None
        if self.normed:
            q = self.q_norm(q)
        k = self.k_proj(x).view(heads)
        if self.normed:
            k = self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), self.v_proj(x).view(heads).transpose(1, 2)
        q, k = rotated(q, k, *table)
        o, weights = self.core(q, k, v, mask, positions)
        o = o.reshape(*x.shape[:-1], -1).contiguous()
        return self.o_proj(o), weights


class BERTAttention(nn.Module):
    def __init__(self, s):
        super().__init__()
        h = s["H"]
        self.width = s["head_dim"]
        self.query, self.key, self.value = nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, h)
        self.core = Core(s, causal=False, cast=False)

    def forward(self, x):
        heads = (*x.shape[:-1], -1, self.width)
        q = self.query(x).view(heads).transpose(1, 2)
        k = self.key(x).view(heads).transpose(1, 2)
        v = self.value(x).view(heads).transpose(1, 2)
        o, weights = self.core(q, k, v, None)
        return o.reshape(*x.shape[:-1], -1).contiguous(), weights


@torch.no_grad()
def rotary_table(inv_freq, positions, like):
    """cos and sin of every position, [1, S, D]."""
    with torch.autocast(like.device.type, enabled=False) if like.device.type != "meta" else no_autocast():
        angles = (inv_freq[None, :, None].float() @ positions[:, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(like.dtype), both.sin().to(like.dtype)


def no_autocast():
    import meta_autocast
    return meta_autocast.disabled()


def rotated(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    rq = q * cos + half_turned(q) * sin
    rk = k * cos + half_turned(k) * sin
    return rq, rk


def half_turned(x):
    a, b = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-b, a), dim=-1)
