"""The environment of a child that asks NVML."""

import os
from pathlib import Path

import poolhouse_agent


def of_child() -> dict[str, str]:
    """Return ours, with the package importable."""
    return {**os.environ, "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1])}
