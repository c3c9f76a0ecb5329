"""The one device a job may use: opened with the memory it may take, closed at the end."""
import gc
import os
import re
import subprocess

import torch

from refusal import Refusal


# Bytes in use on a device before this process opened it, by the device's index.
others = {}


def used_before(device):
    return others.get(device.index)


def in_use(index):
    """What nvidia-smi says is in use; None where it cannot be asked."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    name = visible.split(",")[index].strip() if visible and index < len(visible.split(",")) else str(index)
    try:
        out = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", name], capture_output=True, text=True, timeout=20)
        return int(out.stdout.split()[0]) * 2**20
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def acquire(job):
    name = job["device"]
    if name in ("meta", "cpu"):
        return torch.device(name)
    index = int(name.removeprefix("cuda:"))
    others[index] = in_use(index)
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda or torch.version.hip else f", and torch {torch.__version__} is built without CUDA"
        raise Refusal("no_device", f"no CUDA device is usable{built}")
    if index >= torch.cuda.device_count():
        raise Refusal("no_device", f"there is no CUDA device {index}: there are {torch.cuda.device_count()}")
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    free, total = torch.cuda.mem_get_info(device)
    need = job.get("need_bytes") or 0
    if limit := job.get("limit"):
        torch.cuda.set_per_process_memory_fraction(limit, device)
        free = min(free, int(limit * total))
    if need > free and not job.get("force"):
        raise Refusal(
            "busy_device", f"the step is predicted to need {need:,} bytes and {free:,} of {total:,} are free on device {index}",
            need_bytes=need, free_bytes=free, total_bytes=total)
    return device


def release(device):
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def out_of_memory(device, error):
    text = str(error).split("\n")[0]
    wanted = re.search(r"[Tt]ried to allocate ([\d.]+) (KiB|MiB|GiB|bytes)", text)
    scale = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    sizes = {"requested_bytes": int(float(wanted[1]) * scale[wanted[2]]) if wanted else 0}
    if device.type == "cuda":
        sizes["free_bytes"], sizes["total_bytes"] = torch.cuda.mem_get_info(device)
        stats = torch.cuda.memory_stats(device)  # at their highest: the failed step's tensors are gone by now
        sizes.update(allocated_bytes=stats["allocated_bytes.all.peak"], reserved_bytes=stats["reserved_bytes.all.peak"])
    return Refusal("out_of_memory", text, **sizes)


def environment(device):
    if device.type != "cuda":
        return {"threads": torch.get_num_threads()} if device.type == "cpu" else {}
    p = torch.cuda.get_device_properties(device)
    env = {
        "gpu": p.name, "capability": f"{p.major}.{p.minor}", "memory_bytes": p.total_memory, "multiprocessors": p.multi_processor_count,
        "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
    }
    if driver := driver_version():
        env["driver"] = driver
    return env


def driver_version():
    try:
        with open("/proc/driver/nvidia/version") as f:
            found = re.search(r"(\d+\.\d+(\.\d+)?)", f.read())
            return found[1] if found else None
    except OSError:
        return None
