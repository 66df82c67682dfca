"""GPUs through the real `pynvml` over a stand-in for the driver's library: every kind of machine, every fault."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from poolhouse_agent.config import Config
from poolhouse_agent.nvml.inventory import DEADLINE_S, Inventory
from poolhouse_agent.nvml.lookout import Lookout
from poolhouse_agent.nvml.xids import XidWatch
from poolhouse_agent.state import State
from poolhouse_common import failures

from tests.agent.conftest import join, running_agent
from tests.fakes.nvml import build, record
from tests.fakes.nvml.build import Scenario
from tests.fakes.pool import Pool

FIRST, SECOND = (f"GPU-00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build.build(tmp_path_factory.mktemp("nvml")))


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenario]:
    made = Scenario(tmp_path / "scenario.txt")
    monkeypatch.setenv("NVML_STUB", str(made.path))
    yield made
    assert os.environ["NVML_STUB"] == str(made.path)


@pytest.fixture
def inventory(library: str, scenario: Scenario) -> Inventory:
    return Inventory(library=library, root=scenario.root)


async def end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("profile", build.names())
async def test_every_kind_of_machine_has_exactly_this_report(
    inventory: Inventory, scenario: Scenario, profile: str
) -> None:
    scenario.use(profile)
    inventory.deadline_s = record.deadline_s(profile)

    report = await inventory.read()

    assert record.text(report) == (record.REPORTS / f"{profile}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("profile", build.names())
def test_every_code_and_reason_of_a_report_is_in_the_catalogue(profile: str) -> None:
    report = json.loads((record.REPORTS / f"{profile}.json").read_text(encoding="utf-8"))
    reasons = {reason for gpu in report["gpus"] for reason in gpu["missing"].values()}
    codes = {error["code"] for error in report["errors"]}

    assert {word for word in codes | reasons if failures.find(word) is None} == set()


def test_a_field_stands_among_the_values_or_among_the_missing_and_nowhere_twice() -> None:
    for file in sorted(record.REPORTS.glob("*.json")):
        for gpu in json.loads(file.read_text(encoding="utf-8"))["gpus"]:
            top = {"memory"} if gpu["memory_bytes"] is not None else set()
            top |= {"compute_capability"} if gpu["compute_capability"] else set()
            assert not (set(gpu["values"]) | top) & set(gpu["missing"]), file.name
            assert len(gpu["values"]) + len(top) + len(gpu["missing"]) == 58, file.name


async def test_two_slices_have_their_own_memory_and_the_parents_is_counted_apart(
    inventory: Inventory, scenario: Scenario
) -> None:
    scenario.use("mig")

    whole, cut = (await inventory.read()).gpus

    assert (whole["instances"], cut["memory_bytes"]) == ([], 85_899_345_920)
    assert [(one["uuid"][:4], one["memory_bytes"]) for one in cut["instances"]] == [
        ("MIG-", 42_144_366_592), ("MIG-", 20_937_965_568),
    ]  # fmt: skip


async def test_a_slice_that_cannot_be_read_is_one_with_a_reason(inventory: Inventory, scenario: Scenario) -> None:
    scenario.use("mig")
    scenario.add("gpu1.mig3.fail.nvmlDeviceGetMemoryInfo=15")

    _, cut = (await inventory.read()).gpus

    assert "memory_bytes" not in cut["instances"][1]
    assert cut["instances"][1]["missing"] == {"memory_bytes": "gpu_is_lost", "memory_used_bytes": "gpu_is_lost"}


async def test_a_name_that_is_not_utf8_is_still_a_name(inventory: Inventory, scenario: Scenario) -> None:
    scenario.add(r"gpu1.name=Karte \xe9\xff")

    report = await inventory.read()

    assert report.gpus[1]["name"] == "Karte ��"


async def test_a_lost_card_is_named_by_the_uuid_it_had(inventory: Inventory, scenario: Scenario) -> None:
    await inventory.read()
    scenario.add("gpu0.lost=1")

    report = await inventory.read()

    assert report.errors == ({"code": "gpu_is_lost", "detail": FIRST},)
    assert [gpu["uuid"] for gpu in report.gpus] == [SECOND]


async def test_a_discrete_card_without_a_size_is_faulty_and_no_integrated_one(
    inventory: Inventory, scenario: Scenario
) -> None:
    scenario.add("gpu1.mem_total=-", "gpu0.compute_mode=2")

    report = await inventory.read()

    assert report.errors == (
        {"code": "compute_prohibited", "detail": FIRST}, {"code": "gpu_memory_unreadable", "detail": SECOND},
    )  # fmt: skip
    assert report.gpus[1]["memory_bytes"] is None
    assert report.gpus[1]["values"]["unified"] is False


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("fail.nvmlInitWithFlags=9", "nvml_driver_not_loaded"),
        ("fail.nvmlInitWithFlags=18", "nvml_library_mismatch"),
        ("fail.nvmlInitWithFlags=999", "nvml_error"),
        ("fail.nvmlInitWithFlags=4", "nvml_error"),
        ("fail.nvmlDeviceGetCount_v2=999", "nvml_error"),
        ("count=0", "no_gpu"),
    ],
)
async def test_what_ails_the_driver_is_named(inventory: Inventory, scenario: Scenario, line: str, code: str) -> None:
    scenario.add(line)

    report = await inventory.read()

    assert [error["code"] for error in report.errors] == [code]
    assert report.gpus == ()


async def test_no_library_is_named_and_in_a_container_whose_host_has_a_gpu_by_another_name(tmp_path: Path) -> None:
    nowhere = Inventory(library=str(tmp_path / "none.so"), root=tmp_path)
    (tmp_path / ".dockerenv").touch()

    without = await nowhere.read()
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build\n")
    hidden = await nowhere.read()

    assert [error["code"] for error in without.errors] == ["nvml_library_missing"]
    assert [error["code"] for error in hidden.errors] == ["container_without_gpu"]


async def test_a_driver_that_hangs_as_a_whole_is_reported_in_time(inventory: Inventory, scenario: Scenario) -> None:
    scenario.add("sleep.nvmlInitWithFlags=600000")
    inventory.deadline_s = 1.0

    report = await inventory.read()

    assert report.errors == ({"code": "nvml_hung", "detail": "no answer within 1 s"},)
    scenario.add("sleep.nvmlInitWithFlags=0")
    inventory.deadline_s = DEADLINE_S
    assert len((await inventory.read()).gpus) == 2


async def test_a_gpu_whose_call_cannot_be_killed_is_left_alone_and_the_other_is_read(
    inventory: Inventory, scenario: Scenario
) -> None:
    await inventory.read()
    stuck = await asyncio.create_subprocess_exec("sleep", "600")
    inventory.remember_stuck(stuck, gpu=0)

    report = await inventory.read()
    stuck.kill()
    await stuck.wait()
    healed = await inventory.read()

    assert [gpu["uuid"] for gpu in report.gpus] == [SECOND]
    assert report.errors == ({"code": "gpu_hung", "detail": FIRST},)
    assert (len(healed.gpus), healed.errors) == (2, ())


async def test_nobody_waits_for_a_slow_reading(inventory: Inventory, scenario: Scenario) -> None:
    scenario.add("gpu0.sleep.nvmlDeviceGetTemperature=700")
    lookout = Lookout(inventory, patience_s=0.0)

    early = await lookout.read()
    assert early.gpus == ()
    while not lookout.latest.gpus:
        await asyncio.sleep(0.02)

    assert [gpu["values"]["temperature_c"] for gpu in lookout.latest.gpus] == [41, 41]


async def test_an_xid_is_heard_and_stands_in_the_report(library: str, scenario: Scenario) -> None:
    watch = XidWatch(library=library)
    inventory = Inventory(library=library, root=scenario.root, xids=watch)
    listening = asyncio.create_task(watch.run())
    while watch.missing:
        await asyncio.sleep(0.02)
    quiet = await inventory.read()

    scenario.add("xids=1:13,1:79,0:48,1:79")
    while len(watch.heard()) < 2:
        await asyncio.sleep(0.02)
    loud = await inventory.read()
    await end(listening)

    assert [gpu["values"]["xids"] for gpu in quiet.gpus] == [[], []]
    assert [gpu["values"]["xids"] for gpu in loud.gpus] == [[48], [13, 79]]
    assert loud.errors == ({"code": "ecc_uncorrected", "detail": FIRST}, {"code": "gpu_is_lost", "detail": SECOND})


@pytest.mark.parametrize(
    ("line", "reason"),
    [("fail.nvmlDeviceRegisterEvents=3", "not_supported"), ("fail.nvmlEventSetCreate=13", "function_not_found")],
)
async def test_a_driver_that_never_tells_xids_is_not_asked_for_ever(
    library: str, scenario: Scenario, line: str, reason: str
) -> None:
    scenario.add(line)
    watch = XidWatch(library=library)

    await watch.run()

    assert watch.missing == reason
    report = await Inventory(library=library, root=scenario.root, xids=watch).read()
    assert [gpu["missing"]["xids"] for gpu in report.gpus] == [reason, reason]


async def test_a_listener_that_the_driver_holds_is_noticed(library: str, scenario: Scenario) -> None:
    scenario.add("sleep.nvmlEventSetWait_v2=600000")
    watch = XidWatch(library=library, silence_s=1.0, first_s=600.0)

    listening = asyncio.create_task(watch.run())
    while watch.missing != "nvml_hung":
        await asyncio.sleep(0.05)
    await end(listening)

    assert watch.heard() == {}


async def test_a_library_that_crashes_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text(
        "#include <stdlib.h>\nint nvmlInitWithFlags(unsigned f) { (void)f; abort(); }\n", encoding="ascii"
    )
    library = tmp_path / "crash.so"
    subprocess.run([build.compiler() or "cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)

    report = await Inventory(library=str(library)).read()

    assert report.errors == ({"code": "nvml_crashed", "detail": "exit status -6"},)


async def test_a_card_pulled_out_while_the_agent_runs_is_told_to_the_pool(
    pool: Pool, state: State, library: str, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolhouse_agent.heartbeat._INVENTORY_EVERY_S", 0.5)
    pool.desired = []
    await join(pool, state, simulate="")

    async with running_agent(state, config=Config(nvml=library)):
        before = await pool.heartbeat(lambda beat: len(beat["gpus"]) == 2)
        scenario.add("gpu1.lost=1")
        after = await pool.heartbeat(lambda beat: beat["gpu_errors"])
        scenario.add("gpu1.lost=0")
        healed = await pool.heartbeat(lambda beat: not beat["gpu_errors"] and len(beat["gpus"]) == 2)

    assert before["gpu_errors"] == []
    assert after["gpu_errors"] == [{"code": "gpu_is_lost", "detail": SECOND}]
    assert [gpu["uuid"] for gpu in after["gpus"]] == [FIRST]
    assert [gpu["index"] for gpu in healed["gpus"]] == [0, 1]


async def test_the_pool_hears_of_the_machine_and_not_of_the_owners_processes(
    pool: Pool, state: State, library: str, scenario: Scenario
) -> None:
    pool.desired = []
    await join(pool, state, simulate="")

    async with running_agent(state, config=Config(nvml=library)):
        beat = await pool.heartbeat(lambda beat: len(beat["gpus"]) == 2)

    second = beat["gpus"][1]
    assert second["values"]["process_count"] == 2
    assert "processes" not in second["values"]
    assert {"kernel", "cpu_count", "disk_free_bytes", "uptime_s"} <= set(beat["host"])
    assert not set(beat["host"]) & set(beat["host_missing"])
    assert {reason for reason in beat["host_missing"].values() if failures.find(reason) is None} == set()
