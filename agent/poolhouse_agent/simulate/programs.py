"""GPU programs of GPUs that are not there: figures in the size of the real card's, the same each time."""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from poolhouse_agent.benchmarks.programs import Job, Outcome
from poolhouse_agent.benchmarks.step import Say

_PAUSE_S = 0.02
_SPREAD = 40  # thousandths by which cards of one kind differ
# Dense bf16 TFLOPS and GB/s as they are measured on such cards (public tables of matmul and copy results).
_MEASURED: Mapping[str, tuple[float, float]] = {
    "NVIDIA GeForce RTX 3090": (76, 860), "NVIDIA GeForce RTX 4090": (168, 930), "NVIDIA GeForce RTX 5090": (221, 1650),
    "NVIDIA L40S": (230, 790), "NVIDIA A100-SXM4-80GB": (266, 1820), "NVIDIA H100 80GB HBM3": (740, 3050),
    "NVIDIA H200": (780, 4300),
}  # fmt: skip
_UNKNOWN = (50.0, 500.0)
_BY_DTYPE = {"bf16": 1.0, "fp16": 1.0, "tf32": 0.5, "fp32": 0.25, "fp8": 1.9}


class SimulatedPrograms:
    """Answers like `TorchPrograms`, from the card's name, with a pause (seconds) before each third of the progress."""

    def __init__(self, gpus: Sequence[Mapping[str, Any]], *, pause_s: float = _PAUSE_S) -> None:
        self._pause_s = pause_s
        self._gpus = {str(gpu["uuid"]): gpu for gpu in gpus}

    async def run(self, job: Job, say: Say) -> Outcome:
        """Return figures after a moment."""
        for part in range(1, 4):
            await asyncio.sleep(self._pause_s)
            say(part / 3)
        gpu = self._gpus.get(job.uuids[0])
        if gpu is None:
            return Outcome(code="gpu_not_found", detail=job.uuids[0])
        tflops, bandwidth = _MEASURED.get(gpu["name"], _UNKNOWN)
        share = 1 - zlib.crc32(job.uuids[0].encode()) % _SPREAD / 1000
        return Outcome(_found(job, gpu, tflops * share, bandwidth * share))


def _found(job: Job, gpu: Mapping[str, Any], tflops: float, bandwidth: float) -> dict[str, Any]:
    product = round(tflops * _BY_DTYPE[job.options.get("dtype", "bf16")], 1)
    return {
        "start": {"torch": "simulated", "cuda": "12.8", "compute_capability": gpu["compute_capability"]},
        "fill": {"percent": 98.0, "held_bytes": int(0.88 * (gpu["memory_bytes"] or 0)), "blocks": 1},
        "bandwidth": {"gb_per_s": round(bandwidth, 1)},
        "link": {"to_device_gb_per_s": 24.6, "from_device_gb_per_s": 25.9},
        "product": {"tflops": product, "best_tflops": product, "side": 8192},
        "repeat": {"times": job.options.get("times", 0)},
        "soak": {"percent": 97.5, "first_tflops": round(tflops, 1), "last_tflops": round(0.975 * tflops, 1)},
        "copies": {"gb_per_s": 11.8},
        "all_reduce": {"gb_per_s": 11.8},
    }[job.program]
