"""The check of the engine's program: one that cannot be started is a verdict, never a crash."""

from pathlib import Path

import pytest
from poolhouse_agent.checks import engine
from poolhouse_agent.checks.result import Status, Surroundings
from poolhouse_agent.config import Config
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.state import State


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\x7fELF of another machine", "Exec format error"), (b"#!/nowhere/python\n", "No such file or directory")],
)
async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    program = tmp_path / "vllm"
    program.write_bytes(content)
    program.chmod(0o755)

    found = await engine.program(Surroundings(State(tmp_path / "none"), Config(vllm=str(program)), GpuReport()))

    assert [(one.status, one.code, one.detail) for one in found] == [
        (Status.FAIL, "engine_start_failed", f"{program}: {why}")
    ]
