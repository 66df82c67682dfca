"""GPUs through the real `pynvml` over a stand-in for the driver's library: healthy, lost, odd, hung, absent."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from poolhouse_agent.config import Config
from poolhouse_agent.nvml.inventory import Inventory
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.fakes.nvml import build
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


async def test_two_healthy_cards_are_reported_in_full(library: str, scenario: Scenario) -> None:
    report = await Inventory(library=library).read()

    assert report.errors == ()
    assert (report.driver, report.cuda) == ("570.133.20", 12080)
    first, second = report.gpus
    assert (first["uuid"], second["uuid"]) == (FIRST, SECOND)
    assert first["name"] == "NVIDIA GeForce RTX 4090"
    assert first["memory_bytes"] == 25_757_220_864
    assert first["compute_capability"] == "8.9"
    assert first["values"]["temperature_c"] == 41
    assert first["values"]["pcie_width"] == 16
    assert second["values"]["pcie_width"] == 4
    assert second["values"]["processes"] == [
        {"pid": 4242, "memory_bytes": 1_073_741_824}, {"pid": 4243, "memory_bytes": None},
    ]  # fmt: skip


async def test_every_field_has_a_value_or_a_reason(library: str, scenario: Scenario) -> None:
    report = await Inventory(library=library).read()

    gpu = report.gpus[0]
    assert gpu["missing"]["serial"] == "not_supported"
    assert gpu["missing"]["remapped_rows"] == "not_supported"
    assert not set(gpu["values"]) & set(gpu["missing"])
    assert len(gpu["values"]) + len(gpu["missing"]) >= 28


async def test_one_lost_card_does_not_silence_the_other(library: str, scenario: Scenario) -> None:
    scenario.add("gpu0.lost=1")

    report = await Inventory(library=library).read()

    assert [gpu["uuid"] for gpu in report.gpus] == [SECOND]
    assert report.errors == ({"code": "gpu_is_lost", "detail": "GPU 0"},)


async def test_a_card_lost_in_the_middle_keeps_what_was_read(library: str, scenario: Scenario) -> None:
    scenario.add("gpu0.lost_after=8")

    report = await Inventory(library=library).read()

    assert [gpu["uuid"] for gpu in report.gpus] == [FIRST, SECOND]
    assert report.gpus[0]["name"] == "NVIDIA GeForce RTX 4090"
    assert "gpu_is_lost" in report.gpus[0]["missing"].values()
    assert report.errors == ({"code": "gpu_is_lost", "detail": FIRST},)


async def test_a_name_that_is_not_utf8_is_still_a_name(library: str, scenario: Scenario) -> None:
    scenario.add(r"gpu1.name=Karte \xe9\xff")

    report = await Inventory(library=library).read()

    assert report.gpus[1]["name"] == "Karte ��"


async def test_a_cut_up_card_is_an_error(library: str, scenario: Scenario) -> None:
    scenario.add("gpu1.mig=1")

    report = await Inventory(library=library).read()

    assert report.errors == ({"code": "mig_enabled", "detail": SECOND},)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("fail.nvmlInitWithFlags=9", "nvml_driver_not_loaded"),
        ("fail.nvmlInitWithFlags=18", "nvml_library_mismatch"),
        ("fail.nvmlInitWithFlags=999", "nvml_error"),
        ("fail.nvmlDeviceGetCount_v2=999", "nvml_error"),
        ("count=0", "no_gpu"),
    ],
)
async def test_what_ails_the_driver_is_named(library: str, scenario: Scenario, line: str, code: str) -> None:
    scenario.add(line)

    report = await Inventory(library=library).read()

    assert [error["code"] for error in report.errors] == [code]
    assert report.gpus == ()


async def test_no_library_is_named(tmp_path: Path) -> None:
    report = await Inventory(library=str(tmp_path / "none.so")).read()

    assert [error["code"] for error in report.errors] == ["nvml_library_missing"]


async def test_a_hung_driver_is_reported_in_time(library: str, scenario: Scenario) -> None:
    scenario.add("sleep.nvmlDeviceGetTemperature=20000")
    inventory = Inventory(library=library, deadline_s=1.0)

    report = await inventory.read()

    assert report.errors == ({"code": "nvml_hung", "detail": "no answer within 1 s"},)
    scenario.add("sleep.nvmlDeviceGetTemperature=0")
    assert len((await Inventory(library=library).read()).gpus) == 2


async def test_a_library_that_crashes_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text(
        "#include <stdlib.h>\nint nvmlInitWithFlags(unsigned f) { (void)f; abort(); }\n", encoding="ascii"
    )
    library = tmp_path / "crash.so"
    import subprocess

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
    assert after["gpu_errors"] == [{"code": "gpu_is_lost", "detail": "GPU 1"}]
    assert [gpu["uuid"] for gpu in after["gpus"]] == [FIRST]
    assert [gpu["index"] for gpu in healed["gpus"]] == [0, 1]
