"""Runs one training job with PyTorch and writes what it measured: run.py JOB.json RESULT.json.

The result is a measurement, or {"error": {"kind", "message", …}}: a refusal is an answer, so the exit status is 0 with
both. Anything else is a crash.
"""
import json
import os
import signal
import sys
import traceback

import stage
from refusal import Refusal


def one_thread():
    """Sums are to be added in one order. Each BLAS reads its own variable when it is loaded; torch's setting does not
    reach all of them."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[name] = "1"


def measure(job):
    one_thread()
    stage.at("importing PyTorch")
    try:
        import torch
    except ImportError as e:
        raise Refusal("no_torch", f"{sys.executable} cannot import torch: {e}")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 4):
        raise Refusal("no_torch", f"torch {torch.__version__} is too old: 2.4 or later is needed")
    import session
    return session.run(job)


def answer(job):
    try:
        return measure(job)
    except Refusal as e:
        return {"error": e.fields}
    except Exception as e:
        return {"error": {"kind": "failed", "message": f"{type(e).__name__}: {e}", "traceback": traceback.format_exc()}}


def write(path, result):
    with open(path + ".part", "w") as f:
        json.dump(result, f)
    os.replace(path + ".part", path)


def main(job_path, result_path):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs finally blocks, so that the device is released
    with open(job_path) as f:
        job = json.load(f)
    write(result_path, answer(job))


if __name__ == "__main__":
    main(*sys.argv[1:])
