"""A training step: micro-batches of forward, loss and backward, then the optimizer."""
import torch


class TrainingStep:
    def __init__(self, model, batch, spec, casts, device, plant=None):
        self.model, self.batch, self.casts, self.plant = model, batch, casts, plant
        train = spec["train"]
        self.keep_logits = train["keep_logits"]
        self.micro_batches = max(1, train.get("grad_accum", 1))
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = optimizer(train.get("optimizer", "adamw"), self.trained, device)

    def run(self, meter):
        if self.plant == "out of memory":
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.90 GiB.")
        for _ in range(self.micro_batches):
            meter.enter("forward")
            with self.casts.forward():
                out = self.model(**self.batch)
            loss = out.loss
            if not self.keep_logits:
                del out
            meter.enter("backward")
            loss.backward()
            if self.keep_logits:
                del out
            del loss
        meter.enter("optimizer")
        self.update()
        meter.enter(None)

    def update(self):
        if self.optimizer is not None:
            self.optimizer.step()
        for p in self.trained:
            p.grad = None

    def gradients(self):
        """Leaves one micro-batch's gradients in the parameters; the loss."""
        with self.casts.forward():
            loss = self.model(**self.batch).loss
        loss.backward()
        return loss.detach()


class FusedAdamWState:
    """AdamW(fused=True) on the meta device, which has no such kernel: it allocates nothing but its state, two copies of
    each parameter and a step count of four bytes."""

    def __init__(self, trained):
        self.trained, self.state = trained, {}

    def step(self):
        for p in self.trained:
            if p.grad is not None and p not in self.state:
                step = torch.zeros((), dtype=torch.float32, device=p.device)
                self.state[p] = step, torch.zeros_like(p, requires_grad=False), torch.zeros_like(p, requires_grad=False)


def optimizer(name, trained, device):
    if name == "none" or not trained:
        return None
    if name == "adamw-fused":
        return FusedAdamWState(trained) if device.type == "meta" else torch.optim.AdamW(trained, lr=1e-5, fused=True)
    if name == "adamw":
        return torch.optim.AdamW(trained, lr=1e-5, foreach=True)
    if name == "adamw-loop":
        return torch.optim.AdamW(trained, lr=1e-5, foreach=False)
    if name == "sgd":
        return torch.optim.SGD(trained, lr=1e-4, foreach=True)
    if name == "sgd-momentum":
        return torch.optim.SGD(trained, lr=1e-4, momentum=0.9, foreach=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(trained, lr=1e-5, foreach=True)
    from refusal import Refusal
    raise Refusal("unsupported", f"optimizer {name} is not run by the torch engine")
