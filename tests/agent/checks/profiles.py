"""`python -m tests.agent.checks.profiles`: writes what the commands print on every profile of the stub anew.

Read the difference before you keep it: these files are what people see.
"""

import asyncio
import contextlib
import io
import os
import tempfile
from pathlib import Path

from poolhouse_agent.checks import run as checks
from poolhouse_agent.checks.abilities import abilities
from poolhouse_agent.checks.result import Result, Status, Surroundings
from poolhouse_agent.commands import doctor
from poolhouse_agent.config import Config
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.state import State

from tests.fakes.nvml import build, record
from tests.fakes.nvml.build import Scenario

FOLDER = Path(__file__).with_name("doctor")
NOWHERE = Path("/nowhere/vllm")


async def report_of(profile: str, *, library: str, folder: Path) -> GpuReport:
    """Read one profile with the real bindings."""
    place = folder / profile
    place.mkdir()
    scenario = Scenario(place / "scenario.txt", profile)
    before = os.environ.get("NVML_STUB")
    os.environ["NVML_STUB"] = str(scenario.path)
    try:
        return await Inventory(library=library, deadline_s=record.deadline_s(profile), root=scenario.root).read()
    finally:
        if before is None:
            del os.environ["NVML_STUB"]
        else:
            os.environ["NVML_STUB"] = before


async def doctor_says(report: GpuReport, *, folder: Path) -> str:
    """What `doctor --only gpu` prints, the machine's abilities below and the exit code last."""
    around = Surroundings(State(folder / "none"), Config(vllm=str(NOWHERE)), report)
    results = await checks.run(around, only="gpu")
    engine = Result("engine", Status.OK, "vLLM")
    can = [one for one in abilities([*results, engine]) if one.id == "serve_vllm"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        doctor.show(results, can)
    return f"{out.getvalue()}exit {doctor.status_of(results)}\n"


async def _record() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = str(build.build(folder))
        for profile in build.names():
            report = await report_of(profile, library=library, folder=folder)
            (FOLDER / f"{profile}.txt").write_text(await doctor_says(report, folder=folder), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_record())
