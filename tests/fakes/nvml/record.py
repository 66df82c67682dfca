"""`python -m tests.fakes.nvml.record` writes the report of every profile anew; read the difference, then keep it."""

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from poolhouse_agent.nvml.inventory import DEADLINE_S, GpuReport, Inventory

from tests.fakes.nvml import build
from tests.fakes.nvml.build import Scenario

REPORTS = Path(__file__).with_name("reports")


def deadline_s(profile: str) -> float:
    """How long to wait for an answer: long enough for a busy machine, short where none will come."""
    return 3.0 if profile == "hung" else DEADLINE_S


def as_json(report: GpuReport) -> dict[str, Any]:
    """The report as the golden files hold it."""
    return {
        "driver": report.driver, "cuda": report.cuda, "errors": list(report.errors), "gpus": list(report.gpus),
    }  # fmt: skip


def text(report: GpuReport) -> str:
    """The content of a golden file."""
    return json.dumps(as_json(report), indent=1, sort_keys=True) + "\n"


async def record() -> None:
    """Read every profile with the real bindings and keep what comes out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = str(build.build(folder))
        for profile in build.names():
            place = folder / profile
            place.mkdir()
            scenario = Scenario(place / "scenario.txt", profile)
            os.environ["NVML_STUB"] = str(scenario.path)
            report = await Inventory(library=library, deadline_s=deadline_s(profile), root=scenario.root).read()
            (REPORTS / f"{profile}.json").write_text(text(report), encoding="utf-8")


if __name__ == "__main__":
    REPORTS.mkdir(exist_ok=True)
    asyncio.run(record())
