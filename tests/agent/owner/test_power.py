"""The power cap over a real library: set on every GPU, put back at the end, refused with its reason."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from poolhouse_agent.owner.power import FILE, Limit, PowerKeeper
from poolhouse_agent.state import State
from poolhouse_agent.units import render
from poolhouse_agent.units.render import Place

from tests.fakes.nvml import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
FIRST, SECOND = "GPU-5b6d6a7e-0000-0000-0000-000000000001", "GPU-5b6d6a7e-0000-0000-0000-000000000002"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> build.Scenario:
    made = build.Scenario(tmp_path / "scenario.txt")
    monkeypatch.setenv("NVML_STUB", str(made.path))
    return made


@pytest.fixture
def keeper(state: State, library: Path) -> PowerKeeper:
    return PowerKeeper(state, library=str(library))


@pytest.fixture
def limits(scenario: build.Scenario) -> Callable[[], list[int]]:
    """The limits that the machine has now, in watts."""

    def read() -> list[int]:
        given = dict(
            line.split("=", 1) for line in scenario.path.read_text(encoding="ascii").splitlines() if "=" in line
        )
        return [int(given.get(f"gpu{n}.power_limit", given["gpu.power_limit"])) // 1000 for n in (0, 1)]

    return read


async def test_a_cap_is_set_on_every_gpu_and_the_limits_of_before_come_back(
    keeper: PowerKeeper, limits: Callable[[], list[int]], state: State
) -> None:
    found = await keeper.hold(280)

    assert limits() == [280, 280]
    assert [(one.before_w, one.now_w, one.code) for one in found] == [(450, 280, ""), (450, 280, "")]

    await keeper.restore()
    assert limits() == [450, 450]
    assert state.read(FILE) == {}


async def test_the_limits_of_before_outlive_an_agent_that_is_killed(
    keeper: PowerKeeper, limits: Callable[[], list[int]], state: State, library: Path, scenario: build.Scenario
) -> None:
    scenario.add("gpu1.power_limit=400000")
    await keeper.hold(280)

    later = PowerKeeper(state, library=str(library))  # the first was killed and restored nothing
    await later.hold(250)
    assert limits() == [250, 250]
    await later.restore()

    assert limits() == [450, 400]


async def test_taking_the_cap_back_restores_at_once(keeper: PowerKeeper, limits: Callable[[], list[int]]) -> None:
    await keeper.hold(280)

    await keeper.hold(None)

    assert limits() == [450, 450]


async def test_without_a_cap_nothing_is_ever_set(keeper: PowerKeeper, limits: Callable[[], list[int]]) -> None:
    assert await keeper.hold(None) == ()
    assert await keeper.restore() == ()
    assert limits() == [450, 450]


async def test_without_the_right_it_is_refused_with_its_reason_and_nothing_changes(
    keeper: PowerKeeper, limits: Callable[[], list[int]], scenario: build.Scenario, state: State
) -> None:
    scenario.add("fail.nvmlDeviceSetPowerManagementLimit=4")

    found = await keeper.hold(280)

    assert {one.code for one in found} == {"power_cap_not_permitted"}
    assert limits() == [450, 450]
    assert state.read(FILE) == {}


async def test_a_cap_that_the_card_does_not_take_is_refused_with_its_range(
    keeper: PowerKeeper, limits: Callable[[], list[int]]
) -> None:
    found = await keeper.hold(100)

    assert [(one.code, one.detail) for one in found] == [
        ("power_cap_out_of_range", "this GPU takes 150 to 450 W")
    ] * 2  # fmt: skip
    assert limits() == [450, 450]


async def test_one_gpu_that_fails_does_not_hinder_the_other(
    keeper: PowerKeeper, limits: Callable[[], list[int]], scenario: build.Scenario
) -> None:
    scenario.add("gpu0.fail.nvmlDeviceGetPowerManagementLimitConstraints=3")

    found = await keeper.hold(280)

    assert [one.code for one in found] == ["power_cap_unsupported", ""]
    assert limits() == [450, 280]


async def test_a_hung_driver_hangs_nothing(state: State, library: Path, scenario: build.Scenario) -> None:
    scenario.add("sleep.nvmlDeviceSetPowerManagementLimit=20000")

    found = await PowerKeeper(state, library=str(library), deadline_s=0.5).hold(280)

    assert found == (Limit("", None, None, "nvml_hung", "no answer within 0 s"),)


async def test_a_driver_that_still_hangs_is_not_asked_again(
    keeper: PowerKeeper, limits: Callable[[], list[int]]
) -> None:
    stuck = await asyncio.create_subprocess_exec("sleep", "600")
    keeper.remember_stuck(stuck)

    found = await keeper.hold(280)
    before = limits()
    stuck.kill()
    await stuck.wait()
    await keeper.hold(300)

    assert found == (Limit("", None, None, "nvml_hung", "an earlier call has still not come back"),)
    assert (before, limits()) == ([450, 450], [300, 300])


async def test_a_cap_that_is_held_costs_no_child_each_time(
    keeper: PowerKeeper, limits: Callable[[], list[int]], scenario: build.Scenario
) -> None:
    first = await keeper.hold(280)
    scenario.add("fail.nvmlInitWithFlags=999")

    assert await keeper.hold(280) is first


async def test_no_driver_is_named(state: State) -> None:
    found = await PowerKeeper(state, library="/none").hold(280)

    assert [one.code for one in found] == ["nvml_library_missing"]


async def test_what_could_not_be_asked_is_asked_again(
    state: State, library: Path, scenario: build.Scenario, limits: Callable[[], list[int]]
) -> None:
    keeper = PowerKeeper(state, library=str(library), retry_s=0.0)
    scenario.add("fail.nvmlInitWithFlags=999")
    assert [one.code for one in await keeper.hold(280)] == ["nvml_error"]
    scenario.add("fail.nvmlInitWithFlags=0")

    await keeper.hold(280)

    assert limits() == [280, 280]


def test_the_service_sets_it_before_the_agent_starts_and_puts_it_back_after(tmp_path: Path) -> None:
    unit = render.unit_files(Place(tmp_path / "agent.toml", tmp_path / "state"), environ={})[render.AGENT].splitlines()

    words = f"--config {tmp_path}/agent.toml --state {tmp_path}/state power"
    assert [line.endswith(f"{words} apply") for line in unit if line.startswith("ExecStartPre=-+")] == [True]
    assert [line.endswith(f"{words} restore") for line in unit if line.startswith("ExecStopPost=-+")] == [True]
