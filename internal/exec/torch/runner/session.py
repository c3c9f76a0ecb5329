"""One job: build the model, apply the plan, warm up, measure, check values, report."""
import platform
import random
import sys

import torch

import devices
import gradients
import lora
import models
import plans
import precision
import stage
from checkpointing import Checkpointing
from meters import meter_for
from step import TrainingStep
from witness import Witness


def run(job):
    device = devices.acquire(job)
    try:
        return Session(job, device).run()
    except (torch.cuda.OutOfMemoryError) as e:
        raise devices.out_of_memory(device, e)
    finally:
        devices.release(device)


class Session:
    def __init__(self, job, device):
        self.job, self.spec, self.device = job, job["spec"], device
        self.values = device.type != "meta"
        self.witness = Witness()
        self.checked = bool(self.values and job.get("values"))
        # The step whose gradients are compared warms up too. On CUDA it is left out: it allocates the comparison's copies.
        self.warmup = job["warmup"] - (self.checked and device.type == "cpu")
        self.timed = job["steps"] if self.values else 0
        self.steps = stage.Steps(self.checked + self.warmup + 1 + self.timed)  # the last ones may be left out
        stage.at("building the model")
        seed(job["seed"])
        precision.exact_products()
        self.meter = meter_for(device, self.spec)
        self.model, self.made_of = models.build(job, device)
        self.model.train()
        lora.adapt(self.model, self.spec, device)
        self.casts = precision.Casts(self.spec["dtype"], device)
        how = Checkpointing(self.casts, self.witness, job.get("plant"))
        plans.apply(self.model, self.spec, job.get("module"), job["nodes"], how, device)
        self.batch = models.batch(self.spec, device, job["seed"], (job.get("module") or {}).get("first_id", 0))
        self.meter.holds([*self.model.parameters(), *self.model.buffers(), *self.batch.values()])
        self.step = TrainingStep(self.model, self.batch, self.spec, self.casts, device, job.get("plant"))
        self.how = how

    def run(self):
        job = self.job
        values = self.check() if self.checked else {}
        with self.meter:
            for _ in range(self.warmup):
                self.steps.next("warm-up")
                self.step.run(self.meter)
            self.how.all_cached_ops_ran()
            self.steps.next("memory")
            self.meter.measure(self.step)
            times = self.meter.time(self.step, self.timed, self.steps, job.get("enough_ns")) if self.timed else []
        result = {
            "engine": "torch", "device": str(self.device), "environment": self.environment(), "plan_applied": job["nodes"],
            "model": {
                "made_of": self.made_of, "parameters": count(self.model.parameters()),
                "trainable_parameters": count(p for p in self.model.parameters() if p.requires_grad),
            },
            "step_ns": times, **self.meter.result(), **values,
        }
        return result

    def check(self):
        """A first step from the seed's own weights and batch: its loss and gradients, to set beside another run's."""
        seed(self.job["seed"] + 1)
        self.steps.next("gradients")
        self.witness.start()
        try:
            loss = self.step.gradients()
        except RuntimeError as e:
            raise plans.explain(e, self.witness)
        finally:
            self.witness.stop()
        stage.at("checksums of the gradients")
        values = {"loss": float(loss), "gradients": gradients.checksums(self.model), "observations": self.witness.seen}
        if self.device.type == "cpu":
            self.step.update()
        self.model.zero_grad(set_to_none=True)
        return values

    def environment(self):
        env = {"python": platform.python_version(), "torch": torch.__version__, "seed": self.job["seed"], "platform": platform.platform()}
        if "transformers" in sys.modules:
            env["transformers"] = sys.modules["transformers"].__version__
        env.update(devices.environment(self.device))
        return env


def seed(n):
    random.seed(n)
    torch.manual_seed(n)


def count(parameters):
    return sum(p.numel() for p in parameters)
