"""What is demanded of GPUs, and what is made of the answers."""

from typing import Any

import pytest
from poolhouse_agent.benchmarks import lengths, together
from poolhouse_agent.benchmarks.gpus import GpuSuite
from poolhouse_agent.benchmarks.programs import TorchPrograms
from poolhouse_agent.benchmarks.samples import Sampler
from poolhouse_agent.checks.result import Result
from poolhouse_agent.nvml.inventory import GpuReport

from tests.agent.benchmarks.conftest import GPUS, Answering


class Inventory:
    """Reads the same GPUs, hotter each time."""

    def __init__(self) -> None:
        self.count = 0

    async def read(self) -> GpuReport:
        self.count += 1
        gpus = [{**gpu, "values": {"temperature_c": 40 + self.count, "odd": 1}} for gpu in GPUS]
        return GpuReport(gpus=tuple(gpus))


async def measure(programs: TorchPrograms, *, only: str = "") -> dict[str, Result]:
    sampler = Sampler(Inventory(), every_s=0.01)
    suite = GpuSuite(GPUS, programs=programs, sampler=sampler, lengths=lengths.SIMULATED)
    steps = [*suite.steps(), *together.steps(GPUS, programs=programs)]
    results = [result for step in steps if only in {"", step.name} for result in await step.work(lambda _: None)]
    return {f"{result.id} {result.subject}".strip(): result for result in results}


async def test_healthy_gpus(answering: Answering) -> None:
    found = await measure(answering())

    bf16 = found["gpu.matmul.bf16 GPU-1"]
    assert (bf16.status, bf16.figure, bf16.unit, bf16.version, bf16.code) == ("ok", 166.0, "TFLOPS", 1, "")
    assert (found["gpu.matmul.fp8 GPU-1"].status, found["gpu.matmul.fp8 GPU-1"].code) == ("skip", "check_unsupported")
    slow = found["gpu.pcie.to_device GPU-2"]
    assert (slow.status, slow.code, slow.threshold) == ("warn", "pcie_slow", "at least 2.85 GB/s")
    assert found["gpu.all_reduce"].figure == 2.0
    assert len(found) == 2 * 12 + 2


async def test_what_the_driver_says_meanwhile_is_evidence(answering: Answering) -> None:
    found = await measure(answering(), only="gpu.soak")

    samples: list[dict[str, Any]] = found["gpu.soak GPU-1"].evidence["samples"]
    assert samples
    assert set(samples[0]) == {"at_s", "temperature_c"}


@pytest.mark.parametrize(
    ("changes", "check", "status", "code"),
    [
        ({"fill": {"wrong": "vram_corrupt", "detail": "2 of 90 blocks"}}, "gpu.vram", "fail", "vram_corrupt"),
        ({"fill": {"result": {"percent": 84.9}}}, "gpu.vram", "fail", "vram_unusable"),
        ({"start": {"wrong": "cuda_start_failed", "detail": "no device"}}, "gpu.start", "fail", "cuda_start_failed"),
        ({"repeat": {"wrong": "compute_inconsistent", "detail": "3rd"}}, "gpu.repeat", "fail", "compute_inconsistent"),
        ({"soak": {"result": {"percent": 69.0}}}, "gpu.soak", "fail", "thermal_drop"),
        ({"product__bf16": "die"}, "gpu.matmul.bf16", "fail", "check_crashed"),
    ],
)
async def test_each_fault_has_its_code_and_a_fix(
    answering: Answering, changes: dict[str, Any], check: str, status: str, code: str
) -> None:
    result = (await measure(answering(**changes), only=check))[f"{check} GPU-1"]

    assert (result.status, result.code) == (status, code)
    assert result.fix


async def test_a_gpu_that_is_slower_than_its_neighbour_is_named(answering: Answering) -> None:
    found = await measure(answering(**{"product__bf16@2": {"result": {"tflops": 149.0}}}), only="gpu.matmul.bf16")

    assert found["gpu.matmul.bf16 GPU-1"].code == ""
    slow = found["gpu.matmul.bf16 GPU-2"]
    assert (slow.status, slow.code, slow.figure) == ("warn", "gpu_uneven", 149.0)
    assert slow.detail == "NVIDIA GeForce RTX 4090: 149 TFLOPS, the best here 166"


async def test_nccl_that_works_without_direct_copies_is_a_warning(answering: Answering) -> None:
    failing = {"failed": "NCCL error: unhandled system error"}
    programs = answering(all_reduce=failing, all_reduce__without_p2p={"result": {"gb_per_s": 1.6}})

    result = (await measure(programs, only="gpu.all_reduce"))["gpu.all_reduce"]

    assert (result.status, result.code, result.figure) == ("warn", "nccl_needs_no_p2p", 1.6)
    assert result.evidence["with_p2p"]["detail"] == "NCCL error: unhandled system error"


async def test_nccl_that_hangs_either_way_fails(answering: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_SLACK_S", 0.3)
    (_, step) = together.steps(GPUS, programs=answering(all_reduce="hang"), deadline_s=0.2)

    (result,) = await step.work(lambda _: None)

    assert (result.status, result.code) == ("fail", "nccl_hung")


async def test_one_gpu_has_nobody_to_work_with(answering: Answering) -> None:
    assert together.steps(GPUS[:1], programs=answering()) == []
