"""Loss and gradients of Hugging Face models with given weights and inputs, in fp32 on the CPU.

Reads a list of jobs on stdin, writes a list of results on stdout, both JSON; tensors are base64 of little-endian
float32 or int64.
"""
import base64
import json
import sys

import numpy
import torch
import transformers

CLASSES = {"vit": transformers.AutoModelForImageClassification, "bert": transformers.AutoModelForMaskedLM, "roberta": transformers.AutoModelForMaskedLM}
# BERT's head has other names in Hugging Face's class.
HEAD = {"lm_head.dense": "cls.predictions.transform.dense", "lm_head.layer_norm": "cls.predictions.transform.LayerNorm", "lm_head.bias": "cls.predictions.bias"}


def tensor(t):
    v = numpy.frombuffer(base64.b64decode(t["data"]), dtype=t["type"])
    return torch.from_numpy(v.copy()).reshape(t["shape"])


def run(job):
    config = dict(job["config"])
    kind = config.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **config)
    model = CLASSES.get(kind, transformers.AutoModelForCausalLM).from_config(config, attn_implementation=job["attention"])
    model.train()

    def theirs(name):
        for ours, other in HEAD.items() if kind == "bert" else ():
            name = name.replace(ours, other)
        return name

    parameters = dict(model.named_parameters())
    given = {theirs(name): t for name, t in job["weights"].items()}
    if set(parameters) != set(given):
        return {"error": "parameters differ: " + ", ".join(sorted(set(parameters) ^ set(given)))}
    with torch.no_grad():
        for name, t in given.items():
            parameters[name].copy_(tensor(t))
    loss = model(**{k: tensor(t) for k, t in job["inputs"].items()}).loss
    loss.backward()
    grads = {name: parameters[theirs(name)].grad.contiguous().numpy().astype("<f4") for name in job["weights"]}
    return {"loss": loss.item(), "gradients": {name: base64.b64encode(g.tobytes()).decode() for name, g in grads.items()}}


json.dump([run(job) for job in json.load(sys.stdin)], sys.stdout)
