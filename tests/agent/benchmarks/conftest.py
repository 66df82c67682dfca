"""GPUs, and programs that answer as told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent.benchmarks.programs import TorchPrograms

from tests.fakes import engine_python

Answering = Callable[..., TorchPrograms]
GPUS = [
    {"uuid": f"GPU-{number}", "index": number - 1, "name": "NVIDIA GeForce RTX 4090", "driver": "570.133.20",
     "memory_bytes": 25_757_220_864, "values": {"temperature_c": 40 + number, "power_mw": 300_000}, "missing": {}}
    for number in (1, 2)
]  # fmt: skip


@pytest.fixture
def answering(tmp_path: Path) -> Answering:
    """Programs of a healthy RTX 4090, changed as given."""

    def make(**changes: Any) -> TorchPrograms:
        script = {**engine_python.RTX4090, **{name.replace("__", "."): said for name, said in changes.items()}}
        return TorchPrograms(str(engine_python.build(tmp_path / "venv", script).with_name("python3")))

    return make
