"""Programs of the engine's Python: whatever they do, the agent gets an outcome."""

import asyncio
import os
from pathlib import Path

import pytest
from poolhouse_agent.benchmarks.programs import Job, TorchPrograms

from tests.agent.benchmarks.conftest import Answering


def job(program: str = "start", **fields: object) -> Job:
    return Job(program, ["GPU-1"], **fields)  # type: ignore[arg-type]


async def test_progress_and_result_are_heard(answering: Answering) -> None:
    said: list[float] = []
    programs = answering(fill=[{"progress": 0.25}, "chatter", {"progress": 7}, {"result": {"percent": 99.0}}])

    outcome = await programs.run(job("fill"), said.append)

    assert (said, outcome.found, outcome.code) == ([0.25, 1.0], {"percent": 99.0}, "")


@pytest.mark.parametrize(
    ("said", "code", "detail"),
    [
        ({"unsupported": "no fp8"}, "check_unsupported", "no fp8"),
        ({"wrong": "vram_corrupt", "detail": "torn"}, "vram_corrupt", "torn"),
        ({"failed": "RuntimeError: CUDA"}, "check_crashed", "RuntimeError: CUDA"),
        ("{broken", "check_crashed", "exit status 0"),
        ("[1]", "check_crashed", "exit status 0"),
        ("die", "check_crashed", "exit status -9"),
    ],
)
async def test_every_end_has_a_code(answering: Answering, said: object, code: str, detail: str) -> None:
    outcome = await answering(start=said).run(job(), lambda _: None)

    assert (outcome.code, outcome.detail) == (code, detail)


async def test_last_words_are_evidence(answering: Answering) -> None:
    outcome = await answering().run(job("nothing"), lambda _: None)

    assert outcome.code == "check_crashed"
    assert "no such program nothing" in str(outcome.evidence["stderr"])


async def test_one_that_hangs_is_killed_at_its_deadline(answering: Answering) -> None:
    outcome = await answering(start="hang").run(job(deadline_s=0.5), lambda _: None)

    assert (outcome.code, outcome.detail) == ("check_timeout", "start did not end within 0 s")


async def test_one_that_is_cancelled_leaves_nothing_behind(answering: Answering, tmp_path: Path) -> None:
    begun = asyncio.Event()
    running = answering(start=[{"progress": 0.1}, "hang"]).run(job(), lambda _: begun.set())
    task = asyncio.create_task(running)
    await begun.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(10):
        while _children(str(tmp_path)):
            await asyncio.sleep(0.02)


async def test_a_python_that_is_not_there_is_said_so() -> None:
    outcome = await TorchPrograms("/nowhere/python3").run(job(), lambda _: None)

    assert outcome.code == "engine_python_missing"


async def test_nothing_of_the_agents_environment_goes_in(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POOLHOUSE_TOKEN", "ph-enrol-secret")
    (tmp_path / "show").write_text("")
    programs = answering()
    python = tmp_path / "venv/bin/python3"
    python.write_text('#!/bin/sh\nenv | grep -c POOLHOUSE >&2; echo "{\\"failed\\": \\"$CUDA_VISIBLE_DEVICES\\"}"\n')

    outcome = await programs.run(Job("start", ["GPU-1", "GPU-2"], environment={"NCCL_P2P_DISABLE": "1"}), print_nothing)

    assert (outcome.detail, outcome.evidence) == ("GPU-1,GPU-2", {"stderr": "0\n"})


def print_nothing(_share: float) -> None:
    return None


def _children(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in command:
                found.append(entry.name)
    return found
