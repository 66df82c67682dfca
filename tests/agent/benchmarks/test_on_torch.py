"""The GPU programs themselves, in a real PyTorch without a GPU: the same code, smaller."""

from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent.benchmarks.programs import Job, Outcome, TorchPrograms

PYTHON = Path(__file__).parents[3] / ".venv-vllm/bin/python"
MIB = 1 << 20

pytestmark = [
    pytest.mark.vllm,  # importing PyTorch takes seconds each time
    pytest.mark.skipif(not PYTHON.exists(), reason="needs a PyTorch: `make test-vllm` installs the CPU build"),
]


async def run(program: str, **options: Any) -> Outcome:
    return await TorchPrograms(str(PYTHON), device="cpu").run(Job(program, [], options, 60.0), lambda _: None)


async def test_memory_is_filled_and_read_back() -> None:
    outcome = await run("fill", bytes=64 * MIB, block_bytes=4 * MIB)

    assert (outcome.code, outcome.found["blocks"]) == ("", 11)
    assert outcome.found["held_bytes"] == 44 * MIB
    assert 95 < outcome.found["percent"] <= 100


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
async def test_products_have_a_speed(dtype: str) -> None:
    outcome = await run("product", dtype=dtype, side=96, seconds=0.1)

    assert outcome.code == ""
    assert 0 < outcome.found["tflops"] <= outcome.found["best_tflops"] < 50


@pytest.mark.parametrize("dtype", ["tf32", "fp8"])
async def test_a_format_that_the_device_lacks_is_left_out(dtype: str) -> None:
    outcome = await run("product", dtype=dtype, side=64, seconds=0.1)

    assert (outcome.code, outcome.detail) == ("check_unsupported", f"cpu has no {dtype}")


async def test_the_same_product_is_the_same() -> None:
    assert (await run("repeat", side=64, times=5)).found["times"] == 5


async def test_lasting_load() -> None:
    outcome = await run("soak", side=96, seconds=0.3, dtype="fp32")

    assert 0 < outcome.found["percent"] <= 100
    assert outcome.found["rounds"] > 4


async def test_copies() -> None:
    within, link = await run("bandwidth", bytes=4 * MIB), await run("link", bytes=4 * MIB)
    between = await run("copies", devices=["cpu", "cpu"], bytes=MIB)

    assert within.found["gb_per_s"] > 0
    assert link.found["to_device_gb_per_s"] > 0
    assert set(between.found["pairs"]) == {"0-1", "1-0"}
    assert (await run("copies")).code == "check_unsupported"


async def test_ranks_add_up(tmp_path: Path) -> None:
    from asyncio import gather

    options = {"world": 2, "rendezvous": str(tmp_path / "ranks"), "bytes": MIB}

    outcomes = await gather(*(run("all_reduce", rank=rank, **options) for rank in (0, 1)))

    assert [outcome.code for outcome in outcomes] == ["", ""]
    assert all(outcome.found["gb_per_s"] > 0 for outcome in outcomes)


async def test_a_pytorch_without_cuda_is_said_so() -> None:
    outcome = await TorchPrograms(str(PYTHON)).run(Job("start", ["GPU-1"], {}, 60.0), lambda _: None)

    assert outcome.code == "cuda_not_built_in"
