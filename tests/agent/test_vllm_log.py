"""Failed starts of a real vLLM are named by what its log says."""

from pathlib import Path

import pytest
from poolhouse_agent.engine import vllm_log
from poolhouse_agent.errors import EngineError

STARTS = Path(__file__).parents[1] / "fakes" / "vllm" / "startup"
FALLBACK = EngineError("engine_start_failed", "exit status 1")
CODES = {
    "bad-tp": "tensor_parallel_invalid",
    "hub-model-offline": "weights_missing",
    "kv-too-big-cpu": "engine_start_failed",
    "max-len-too-large": "context_does_not_fit",
    "missing-model": "weights_missing",
    "port-in-use": "engine_start_failed",
    "truncated-weights": "engine_start_failed",
    "unknown-arch": "engine_version_unsupported",
    "unknown-flag": "engine_version_unsupported",
}


@pytest.mark.parametrize("name", CODES)
def test_a_recorded_failure_is_named(name: str) -> None:
    log = (STARTS / f"{name}.txt").read_text(encoding="utf-8")

    found = vllm_log.classify(log, fallback=FALLBACK)

    assert found.code == CODES[name]
    assert found.detail


def test_every_recorded_failure_is_tried() -> None:
    assert {path.stem for path in STARTS.glob("*.txt")} == set(CODES)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ValueError: Free memory on device cuda:0 (1.2/24 GiB) on startup is less than desired GPU memory utilization",
         "out_of_gpu_memory"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "out_of_gpu_memory"),
        ("ValueError: No available memory for the cache blocks.", "out_of_gpu_memory"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "driver_mismatch"),
        ("RuntimeError: The NVIDIA driver: CUDA driver version is insufficient for CUDA runtime version",
         "driver_mismatch"),
    ],
)  # fmt: skip
def test_failures_of_gpus_are_named(line: str, code: str) -> None:
    assert vllm_log.classify(f"INFO ok\n{line}\n", fallback=FALLBACK).code == code


def test_the_length_that_would_fit_is_told() -> None:
    log = (
        "ValueError: To serve at least one request with the model's max seq len (32768), 4.00 GiB KV cache is needed. "
        "Based on the available memory, the estimated maximum model length is 8192."
    )

    found = vllm_log.classify(log, fallback=FALLBACK)

    assert (found.code, found.detail) == ("context_does_not_fit", "at most 8192 tokens fit")


def test_an_unknown_failure_keeps_the_last_error_line() -> None:
    found = vllm_log.classify("INFO a\nRuntimeError: something new\n", fallback=FALLBACK)

    assert (found.code, found.detail) == ("engine_start_failed", "exit status 1; something new")
