"""Runs the checks, one after the other."""

from collections.abc import Mapping, Sequence

from poolhouse_agent.checks import cuda, engine, gpu, machine, pool
from poolhouse_agent.checks.result import Check, Result, Surroundings

CHECKS: Mapping[str, Sequence[Check]] = {
    "machine": (machine.system, machine.python, machine.memory, machine.disk, machine.packages, machine.service),
    "gpu": (gpu.gpus, cuda.cuda),
    "engine": (engine.program, engine.folders, engine.servers),
    "pool": (machine.state, pool.membership, pool.portal),
}


async def run(around: Surroundings, *, only: str = "") -> list[Result]:
    """Run all checks, or those of one group."""
    results: list[Result] = []
    for group, checks in CHECKS.items():
        if only in {"", group}:
            for check in checks:
                results += await check(around)
    return results
