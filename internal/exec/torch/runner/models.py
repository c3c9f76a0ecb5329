"""The model of a spec, and a batch for it."""
import torch

from precision import weights_dtype
from refusal import Refusal

PLAIN_ONLY = ("torch-encoder", "custom")


def build(job, device):
    """The model on the device, and what it is made of. transformers' own class is taken where it is installed."""
    spec = job["spec"]
    given = torch.get_default_dtype()
    torch.set_default_dtype(weights_dtype(spec["dtype"]))
    try:
        with torch.device(device):
            if spec["arch"] in PLAIN_ONLY or job.get("plain") or not has_transformers(job):
                import model_plain
                return model_plain.build(spec, device)
            import model_hf
            return model_hf.build(spec, job["module"], job.get("config"), device)
    finally:
        torch.set_default_dtype(given)


def has_transformers(job):
    try:
        import transformers
    except ImportError as e:
        if job.get("config"):
            raise Refusal("no_transformers", f"a config.json is run with transformers, which cannot be imported: {e}")
        return False
    if int(transformers.__version__.split(".")[0]) < 5:
        raise Refusal("no_transformers", f"transformers {transformers.__version__} is too old: 5 or later is needed")
    return True


def batch(spec, device, seed, low):
    """Token ids from `low` on, or features, or pixels, and labels; on meta only their shapes matter."""
    source = torch.Generator().manual_seed(seed)
    b, s, arch = spec["B"], spec["S"], spec["arch"]

    def integers(high, *shape):
        if device.type == "meta":
            return torch.zeros(shape, dtype=torch.long, device=device)
        return torch.randint(0, high, shape, generator=source).to(device)

    def floats(*shape):
        dtype = weights_dtype(spec["dtype"])
        if device.type == "meta":
            return torch.empty(shape, dtype=dtype, device=device)
        return torch.randn(shape, generator=source).to(device, dtype)

    vocab = spec.get("vocab", 0)
    if arch == "vit":
        image = spec["image"]
        return {"pixel_values": floats(b, image.get("channels", 3), image["size"], image["size"]), "labels": integers(spec["labels"], b)}
    if arch in PLAIN_ONLY:
        classes = spec.get("labels") or (vocab if arch == "torch-encoder" else 0)
        return {
            "x": integers(vocab, b, s) if vocab else floats(b, s, spec["H"]),
            "target": integers(classes, b, s) if classes else floats(b, s, spec["H"]),
        }
    if spec.get("decoder_L"):
        ds = spec.get("decoder_S") or s
        return {"input_ids": integers(vocab, b, s), "decoder_input_ids": integers(vocab, b, ds), "labels": integers(vocab, b, ds)}
    ids = integers(vocab - low, b, s)
    classes = spec.get("labels")
    if classes and spec.get("labels_of") == "span":
        return {"input_ids": ids + low if low else ids, "start_positions": integers(s, b), "end_positions": integers(s, b)}
    labels = integers(classes, b) if classes and spec.get("labels_of") != "tokens" else integers(classes or vocab, b, s)
    return {"input_ids": ids + low if low else ids, "labels": labels}
