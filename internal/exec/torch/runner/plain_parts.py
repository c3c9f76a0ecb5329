"""Norms, projections, activations and MLPs of the plain models."""
import math

import torch
from torch import nn

from refusal import Refusal


class RMSNorm(nn.Module):
    """As the Hugging Face classes compose it: in fp32, weighted in the input's type."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        given = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return self.weight * x.to(given)


class Conv1D(nn.Module):
    """GPT-2's linear layer, whose weight is not transposed."""

    def __init__(self, out, width):
        super().__init__()
        self.out = out
        self.weight = nn.Parameter(torch.empty(width, out).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        shape = x.shape[:-1] + (self.out,)
        x = torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight)
        return x.view(shape)


class NewGELU(nn.Module):
    """gelu_new: the tanh form, op by op."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def activation(name):
    made = {
        "gelu": nn.GELU, "gelu_new": NewGELU, "gelu_tanh": lambda: nn.GELU(approximate="tanh"), "silu": nn.SiLU, "relu": nn.ReLU, "tanh": nn.Tanh,
    }
    if name not in made:
        raise Refusal("unsupported", f"activation {name} in plain PyTorch")
    return made[name]()


class GPT2MLP(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(s["ffn"], s["H"]), Conv1D(s["H"], s["ffn"])
        self.act, self.dropout = activation(s["activation"]), nn.Dropout(s["dropout"]["residual"])

    def forward(self, x):
        y = self.c_fc(x)
        y = self.act(y)
        y = self.c_proj(y)
        return self.dropout(y)


class GatedMLP(nn.Module):
    def __init__(self, s):
        super().__init__()
        h, f, bias = s["H"], s["ffn"], s["bias"]["mlp"]
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(h, f, bias), nn.Linear(h, f, bias), nn.Linear(f, h, bias)
        self.act_fn = activation(s["activation"])

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
