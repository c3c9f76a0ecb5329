"""transformers' own model class, on any device."""
import sys

import torch

import meta_autocast
from precision import weights_dtype
from refusal import Refusal


def build(spec, module, config, device):
    """The class that module describes (model.Module), of the user's own config.json if there is one."""
    import transformers
    if not config and module.get("unsayable"):
        raise Refusal("unsupported", module["unsayable"])
    fields = dict(config or module["config"])
    for key in ("architectures", "dtype", "torch_dtype", "_attn_implementation", "attn_implementation", "transformers_version", "quantization_config", "auto_map"):
        fields.pop(key, None)
    cfg = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    cfg.use_cache = False
    if (getattr(cfg, "pad_token_id", None) or 0) >= getattr(cfg, "vocab_size", 1):
        cfg.pad_token_id = None  # the class's default, outside a small vocabulary
    cls = getattr(transformers, module["auto"])
    model = cls.from_config(cfg, attn_implementation=attention(spec, device))
    model.to(weights_dtype(spec["dtype"]))
    if device.type == "meta":
        reads_no_values(model)
    return model, f"transformers {type(model).__name__}"


def attention(spec, device):
    kind = spec["attention"]
    if kind == "flash2":
        if device.type != "cuda":
            raise Refusal("unsupported", f"attention flash2 is the flash-attn package, which runs on CUDA devices only, not on {device.type}")
        return "flash_attention_2"
    if kind == "math" and device.type != "meta":
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
    return "eager" if kind == "eager" else "sdpa"


def reads_no_values(model):
    """Where transformers looks into tensors, meta has nothing to see: a mask of a batch without padding is dropped, no
    sequences are packed, and autocast regions are ours."""
    import transformers.masking_utils as masking
    drops = masking._ignore_causal_mask_sdpa

    def ignores(*args, **kwargs):
        try:
            return drops(*args, **kwargs)
        except RuntimeError:
            return True
    masking._ignore_causal_mask_sdpa = ignores
    masking.find_packed_sequence_indices = lambda *_, **__: None
    from transformers import PreTrainedModel
    PreTrainedModel.warn_if_padding_and_no_attention_mask = lambda *_: None
    source = sys.modules[type(model).__module__]
    if hasattr(source, "maybe_autocast"):
        source.maybe_autocast = meta_autocast.maybe_autocast
