"""The probes on a real driver: complete, believable, and the same as `nvidia-smi` says."""

import asyncio
import os
import shutil
import subprocess

import pytest
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.nvml.xids import XidWatch
from poolhouse_common import failures

from portal.nodes.rules import readings

pytestmark = pytest.mark.gpu

MIB = 1 << 20
LIBRARY = os.environ.get("POOLHOUSE_NVML", "")


@pytest.fixture(scope="module")
def report() -> GpuReport:
    return asyncio.run(Inventory(library=LIBRARY).read())


def test_each_reading_is_a_value_or_a_known_reason(report: GpuReport) -> None:
    assert report.gpus
    for gpu in report.gpus:
        assert not set(gpu["values"]) & set(gpu["missing"])
        assert {reason for reason in gpu["missing"].values() if failures.find(reason) is None} == set()


def test_the_portal_believes_every_value(report: GpuReport) -> None:
    for gpu in report.gpus:
        told = {name: value for name, value in gpu["values"].items() if name != "processes"}

        kept = readings.gpu(told, gpu["missing"])

        assert kept.values == told


def smi(field: str) -> list[str]:
    answer = subprocess.run(
        ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return [line.strip() for line in answer.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi to compare with")
def test_what_is_read_is_what_nvidia_smi_says(report: GpuReport) -> None:
    assert [gpu["uuid"] for gpu in report.gpus] == smi("uuid")
    assert [gpu["name"] for gpu in report.gpus] == smi("name")
    assert {report.driver} == set(smi("driver_version"))
    assert [gpu["compute_capability"] for gpu in report.gpus] == smi("compute_cap")
    assert [gpu["values"]["bus_id"] for gpu in report.gpus] == smi("pci.bus_id")
    assert [gpu["memory_bytes"] // MIB for gpu in report.gpus] == [int(size) for size in smi("memory.total")]
    limits = [gpu["values"]["power_limit_mw"] for gpu in report.gpus if "power_limit_mw" in gpu["values"]]
    assert limits == [round(float(watts) * 1000) for watts in smi("power.limit") if watts[:1].isdigit()]


async def test_xids_are_listened_for_or_the_driver_says_that_it_never_tells() -> None:
    watch = XidWatch(library=LIBRARY)
    listening = asyncio.create_task(watch.run())
    while watch.missing == "not_watched":
        await asyncio.sleep(0.05)
    listening.cancel()
    await asyncio.wait({listening})

    assert watch.missing in {"", "not_supported"}
