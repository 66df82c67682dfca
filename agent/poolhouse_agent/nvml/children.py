"""Starts the children that ask NVML."""

import asyncio
import os
import sys
from pathlib import Path

import poolhouse_agent


async def start(module: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start one of this package's modules; what it prints can be read. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"poolhouse_agent.nvml.{module}", *arguments, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1])},
    )  # fmt: skip
