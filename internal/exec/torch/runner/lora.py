"""Low-rank adapters on frozen linear layers, by peft's rule: in their own type, the sum in the layer's."""
from torch import nn
from torch.nn import functional as F

from precision import weights_dtype
from refusal import Refusal


def adapt(model, spec, device):
    lora = spec["train"].get("lora")
    if lora and lora.get("base"):
        raise Refusal("unsupported", f"a base quantised to {lora['base']} is estimated, not run")
    if not lora:
        return
    for p in model.parameters():
        p.requires_grad_(False)
    dtype = weights_dtype(lora.get("dtype") or "fp32")
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in lora["targets"] and (isinstance(child, nn.Linear) or type(child).__name__ == "Conv1D"):
                setattr(module, name, Adapted(child, lora, dtype, device))
    if (spec.get("checkpoint") or "none") != "none":  # peft's enable_input_require_grads goes with checkpointing
        input_gradients(model)


def input_gradients(model):
    """An encoder and a decoder have embeddings of their own, which transformers 5 finds."""
    if hasattr(model, "enable_input_require_grads"):
        model.enable_input_require_grads()
    else:
        model.get_input_embeddings().register_forward_hook(lambda _, __, out: out.requires_grad_(True))


class Adapted(nn.Module):
    """y = Wx + s·B(A(dropout(x))), s = α/r."""

    def __init__(self, base, lora, dtype, device):
        super().__init__()
        r = lora["r"]
        self.base, self.p, self.scale = base, lora.get("dropout", 0), lora.get("alpha", 2 * r) / r
        out, width = base.weight.shape if isinstance(base, nn.Linear) else reversed(base.weight.shape)  # GPT-2's Conv1D is not transposed
        self.A = nn.Linear(width, r, bias=False, dtype=dtype, device=device)
        self.B = nn.Linear(r, out, bias=False, dtype=dtype, device=device)

    @property
    def weight(self):  # T5 asks its last projection for its dtype
        return self.base.weight

    def forward(self, x):
        y = self.base(x)
        given = y.dtype
        x = x.to(self.A.weight.dtype)
        y = y + self.B(self.A(F.dropout(x, self.p, self.training))) * self.scale
        return y.to(given)
