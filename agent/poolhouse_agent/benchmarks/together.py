"""Several GPUs together: copies between them, and NCCL's sum with a way out where direct copies hang."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from poolhouse_agent.benchmarks.programs import Job, Outcome, Programs
from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, measured, skipped, trouble

_COPIES_S = 60.0
_SUM_S = 60.0
_SLACK_S = 90.0
_MOST_GPUS = 8


def steps(gpus: Sequence[Mapping[str, Any]], *, programs: Programs, deadline_s: float = _SUM_S) -> list[Step]:
    """The steps for a machine with several GPUs; none where there is one."""
    uuids = [str(gpu["uuid"]) for gpu in gpus][:_MOST_GPUS]
    if len(uuids) <= 1:
        return []

    async def copy(say: Say) -> list[Result]:
        outcome = await programs.run(Job("copies", uuids, {}, _COPIES_S + _SLACK_S), say)
        return [_result("gpu.peer", outcome)]

    async def add_up(say: Say) -> list[Result]:
        return [await _all_reduce(uuids, programs, deadline_s, say)]

    return [
        Step("gpu.peer", "copies between GPUs", 10, copy, takes_gpus=True),
        Step("gpu.all_reduce", "NCCL between GPUs", 20, add_up, takes_gpus=True),
    ]


async def _all_reduce(uuids: Sequence[str], programs: Programs, deadline_s: float, say: Say) -> Result:
    first = await _sum(uuids, programs, deadline_s, {}, say)
    if not first.code or first.code == "check_unsupported":
        return _result("gpu.all_reduce", first)
    second = await _sum(uuids, programs, deadline_s, {"NCCL_P2P_DISABLE": "1"}, say)
    evidence = {"with_p2p": {"code": first.code, "detail": first.detail, **first.evidence}}
    if not second.code:
        found = measured("gpu.all_reduce", float(second.found["gb_per_s"]), evidence={**second.found, **evidence})
        warned = trouble("gpu.all_reduce", Status.WARN, "nccl_needs_no_p2p", first.detail, **found.evidence)
        return replace(warned, figure=found.figure, unit=found.unit)
    hangs = "check_timeout" in {first.code, second.code}
    code = "nccl_hung" if hangs else "nccl_failed"
    return trouble("gpu.all_reduce", Status.FAIL, code, second.detail, **evidence, **second.evidence)


async def _sum(
    uuids: Sequence[str], programs: Programs, deadline_s: float, environment: Mapping[str, str], say: Say
) -> Outcome:
    """Run one rank a GPU; the first one that has found nothing speaks for all."""
    with tempfile.TemporaryDirectory(prefix="ph-") as folder:
        options = {"world": len(uuids), "rendezvous": str(Path(folder) / "ranks")}
        jobs = [
            Job("all_reduce", uuids, {**options, "rank": rank}, deadline_s + _SLACK_S, rank, environment)
            for rank in range(len(uuids))
        ]
        outcomes = await asyncio.gather(*(programs.run(job, say) for job in jobs))
    failed = [outcome for outcome in outcomes if outcome.code]
    return failed[0] if failed else min(outcomes, key=_speed)


def _speed(outcome: Outcome) -> float:
    return float(outcome.found["gb_per_s"])


def _result(check: str, outcome: Outcome) -> Result:
    if outcome.code == "check_unsupported":
        return skipped(check, outcome.detail, code=outcome.code)
    if outcome.code:
        return trouble(check, Status.FAIL, outcome.code, outcome.detail, **outcome.evidence)
    return measured(check, _speed(outcome), evidence=outcome.found)
