"""`benchmark` as people and programs see it: exact words, exit codes, the published schema, never a traceback."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.agent.test_command_line import Agent, Done
from tests.fakes import engine_python
from tests.fakes.nvml import build

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/checks.schema.json").read_text(encoding="utf-8"))
GOLDEN = Path(__file__).with_name("benchmark")


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    if build.compiler() is None:
        pytest.skip("no C compiler for the stand-in of libnvidia-ml")
    return str(build.build(tmp_path_factory.mktemp("nvml")))


async def measure(
    agent: Agent, tmp_path: Path, library: str, *words: str, script: dict[str, Any] | None = None,
    profile: str = "rtx4090x2",
) -> Done:  # fmt: skip
    scenario = build.Scenario(tmp_path / "scenario.txt", profile)
    program = engine_python.build(tmp_path / "venv", script or engine_python.RTX4090)
    return await agent.run(
        "benchmark", "--only", "gpu", *words, POOLHOUSE_NVML=library, NVML_STUB=str(scenario.path),
        POOLHOUSE_VLLM=str(program),
    )  # fmt: skip


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


async def test_two_healthy_gpus(agent: Agent, tmp_path: Path, library: str) -> None:
    done = await measure(agent, tmp_path, library)

    assert done.out == golden("rtx4090x2")
    assert (done.status, done.err) == (0, "")


async def test_faults_are_named_with_what_to_do(agent: Agent, tmp_path: Path, library: str) -> None:
    script = {
        **engine_python.RTX4090,
        "start@2": {"wrong": "cuda_start_failed", "detail": "PyTorch sees no CUDA device"},
        "fill@2": {"wrong": "vram_corrupt", "detail": "2 of 90 blocks came back changed", "evidence": {"torn": [3, 4]}},
        "product.bf16@2": {"result": {"tflops": 101.5}},
        "soak": {"result": {"percent": 64.0}},
        "all_reduce": {"failed": "NCCL error"},
        "all_reduce.without_p2p": {"result": {"gb_per_s": 1.9}},
    }

    done = await measure(agent, tmp_path, library, script=script)

    assert done.out == golden("faults")
    assert (done.status, done.err) == (1, "")


async def test_json_follows_the_published_schema(agent: Agent, tmp_path: Path, library: str) -> None:
    done = await measure(agent, tmp_path, library, "--json", "--short")

    jsonschema.validate(done.json, SCHEMA)
    assert done.json["summary"] == {"ok": 22, "skip": 2, "warn": 2}
    bf16 = next(check for check in done.json["checks"] if check["id"] == "gpu.matmul.bf16")
    assert (bf16["figure"], bf16["unit"], bf16["version"]) == (166.0, "TFLOPS", 1)
    assert bf16["subject"] == "GPU-00000000-0000-4000-8000-000000000001"


async def test_doctor_follows_it_too(agent: Agent) -> None:
    done = await agent.run("doctor", "--json", PATH="/usr/bin:/bin")

    jsonschema.validate(done.json, SCHEMA)
    assert [one["id"] for one in done.json["abilities"]] == ["join", "serve_vllm", "serve_external"]


async def test_without_a_driver_it_says_so(agent: Agent) -> None:
    done = await agent.run("benchmark", "--only", "gpu", PATH="/usr/bin:/bin")

    assert (done.status, done.err) == (1, "")
    assert done.out.splitlines()[0].startswith("FAIL  gpu.start")
    assert "[nvml_library_missing]" in done.out
    assert "fix: Install the NVIDIA driver" in done.out
    assert done.out.splitlines()[-1] == "0 ok, 0 warn, 1 fail, 0 skip"


async def test_without_an_engine_gpus_cannot_be_put_to_work(agent: Agent, tmp_path: Path, library: str) -> None:
    scenario = build.Scenario(tmp_path / "scenario.txt")

    done = await agent.run(
        "benchmark", "--only", "gpu", POOLHOUSE_NVML=library, NVML_STUB=str(scenario.path), PATH="/usr/bin:/bin"
    )

    assert done.status == 1
    assert "[engine_python_missing]" in done.out
    assert "poolhouse-agent engine install" in done.out


async def test_a_lost_gpu_does_not_keep_the_other_from_being_measured(
    agent: Agent, tmp_path: Path, library: str
) -> None:
    done = await measure(agent, tmp_path, library, "--json", profile="off_the_bus")

    lost, *others = done.json["checks"]
    assert {check["subject"] for check in others} == {"GPU-00000000-0000-4000-8000-000000000002"}
    assert {check["status"] for check in others} <= {"ok", "warn", "skip"}
    assert (lost["id"], lost["status"], lost["code"], lost["detail"]) == ("gpu", "fail", "gpu_is_lost", "GPU 0")
    assert done.status == 1


@pytest.mark.parametrize(
    ("profile", "code"),
    [("gb10", "unified_memory_unsupported"), ("old_driver", "compute_capability_too_low"), ("ecc", "ecc_uncorrected")],
)
async def test_a_gpu_that_may_not_be_given_work_is_not_put_to_work_here_either(
    agent: Agent, tmp_path: Path, library: str, profile: str, code: str
) -> None:
    done = await measure(agent, tmp_path, library, "--json", profile=profile)

    assert [(check["id"], check["code"]) for check in done.json["checks"]] == [("gpu.start", code)]
    assert done.status == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--only", "engine", "--url", "http://192.0.2.1:8000"), "config_invalid"),
        (("--only", "engine", "--url", "nonsense"), "config_invalid"),
    ],
)
async def test_what_cannot_run_says_why(agent: Agent, words: tuple[str, ...], code: str) -> None:
    done = await agent.run("benchmark", *words)

    assert done.status == 2
    assert f"[{code}]" in done.err
    assert "fix:" in done.err
    assert "Traceback" not in done.err


async def test_an_engine_that_is_down_is_a_failed_check(agent: Agent) -> None:
    done = await agent.run("benchmark", "--only", "engine", "--url", "http://127.0.0.1:9", "--model", "acme/demo")

    assert done.status == 1
    assert "[engine_unreachable]" in done.out


async def test_the_disk_is_measured_before_the_machine_has_joined(agent: Agent) -> None:
    done = await agent.run("benchmark", "--only", "disk", "--short", "--json")

    jsonschema.validate(done.json, SCHEMA)
    assert [check["id"] for check in done.json["checks"]] == ["disk.write", "disk.read"]
    assert not agent.state.exists()
