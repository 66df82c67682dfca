"""What cannot serve yet is refused with its reason: when it joins, and when an engine is to start on it."""

import json
from pathlib import Path

import pytest
from poolhouse_agent import cli
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.errors import ConfigError, EngineError
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.nvml.refusal import require_servable
from poolhouse_common import failures, gpu_faults

from tests.fakes.nvml import build, record
from tests.fakes.nvml.build import Scenario

REFUSED = {
    "gb10": "unified_memory_unsupported",
    "jetson": "jetson_unsupported",
    "old_driver": "compute_capability_too_low",
    "wsl2": "wsl",
}
UNUSABLE = {
    **REFUSED,
    "container_lost": "nvml_lost_in_container",
    "driver_mismatch": "nvml_library_mismatch",
    "ecc": "ecc_uncorrected",
}
WHOLE_A100, CUT_A100 = "GPU-00000000-0000-4000-8000-0000000000a1", "GPU-00000000-0000-4000-8000-0000000000a2"


def reported(profile: str) -> GpuReport:
    found = json.loads((record.REPORTS / f"{profile}.json").read_text(encoding="utf-8"))
    return GpuReport(tuple(found["gpus"]), tuple(found["errors"]), found["driver"], found["cuda"])


@pytest.mark.parametrize("profile", build.names())
def test_a_kind_that_cannot_serve_yet_is_refused_when_it_joins_and_no_other_is(profile: str) -> None:
    report = reported(profile)

    if profile not in REFUSED:
        require_servable(report)
        return
    with pytest.raises(ConfigError) as raised:
        require_servable(report)

    assert raised.value.code == REFUSED[profile]
    assert raised.value.fix == failures.FAILURES[REFUSED[profile]].fix


def test_a_machine_whose_only_gpu_is_cut_is_refused() -> None:
    report = reported("mig")
    alone = GpuReport(report.gpus[1:], report.errors)

    with pytest.raises(ConfigError, match=rf"^mig_enabled: NVIDIA A100-SXM4-80GB {CUT_A100}$"):
        require_servable(alone)


@pytest.mark.parametrize(("profile", "code"), UNUSABLE.items())
def test_no_engine_starts_where_no_gpu_can_be_used(profile: str, code: str) -> None:
    report = reported(profile)

    with pytest.raises(EngineError) as raised:
        GpuChoice(lambda: report).pick((), count=1, owner="dep")

    assert raised.value.code == code


@pytest.mark.parametrize(
    ("profile", "uuid"),
    [("mig", WHOLE_A100), ("off_the_bus", "GPU-00000000-0000-4000-8000-000000000002"),
     ("lost_while_read", "GPU-00000000-0000-4000-8000-000000000002"),
     ("hung", "GPU-00000000-0000-4000-8000-000000000001")],
)  # fmt: skip
def test_beside_a_bad_gpu_the_good_ones_serve(profile: str, uuid: str) -> None:
    report = reported(profile)

    assert GpuChoice(lambda: report).pick((), count=1, owner="dep") == (uuid,)


def test_a_machine_without_gpu_is_no_broken_one() -> None:
    for code in ("nvml_library_missing", "no_gpu", "container_without_gpu"):
        report = GpuReport(errors=({"code": code, "detail": ""},))

        require_servable(report)
        assert GpuChoice(lambda of=report: of).pick((), count=1, owner="dep") == ()


def test_every_kind_and_fault_is_in_the_catalogue() -> None:
    named = gpu_faults.UNFIT | gpu_faults.LIBRARY | set(gpu_faults.XIDS.values())

    assert {code for code in named if failures.find(code) is None} == set()


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
def test_join_says_why_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = Scenario(tmp_path / "scenario.txt", "gb10")
    monkeypatch.setenv("NVML_STUB", str(scenario.path))
    monkeypatch.setenv("POOLHOUSE_NVML", str(build.build(tmp_path)))
    monkeypatch.setenv("POOLHOUSE_TOKEN", "ph-enrol-x")
    state = tmp_path / "state"
    arguments = ["--state", str(state), "join", "--server", "http://127.0.0.1:9"]

    assert cli.main(arguments) == 2

    error = capsys.readouterr().err
    assert "failed: NVIDIA GB10 GPU-00000000-0000-4000-8000-0000000000d1 [unified_memory_unsupported]" in error
    assert failures.FAILURES["unified_memory_unsupported"].fix in error
    assert not (state / "membership.json").exists()


async def test_a_machine_that_has_nothing_to_do_with_nvidia_may_join(tmp_path: Path) -> None:
    require_servable(await Inventory(library=str(tmp_path / "none.so")).read())
