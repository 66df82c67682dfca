"""Failed starts of a real vLLM are named by what its log says."""

from pathlib import Path

import pytest
from poolhouse_agent.engine import vllm_log
from poolhouse_agent.errors import EngineError

STARTS = Path(__file__).parents[1] / "fakes" / "vllm" / "startup"
FALLBACK = EngineError("engine_start_failed", "exit status 1")
CODES = {
    "bad-tp": "tensor_parallel_invalid",
    "cache-too-large": "out_of_memory",
    "cache-too-small": "context_does_not_fit",
    "hub-model-offline": "weights_missing",
    "kv-too-big-cpu": "engine_start_failed",  # recorded without its root cause
    "max-len-too-large": "context_does_not_fit",
    "missing-model": "weights_missing",
    "port-in-use": "engine_port_taken",
    "quantization-mismatch": "quantization_unsupported",
    "truncated-weights": "engine_start_failed",  # recorded without its root cause
    "truncated-weights-whole": "weights_damaged",
    "unknown-arch": "architecture_unsupported",
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


# What no machine without a GPU can bring about: written by us after the messages that the engine's source prints.
LINES = [
    (("ValueError: Free memory on device cuda:0 (1.2/23.6 GiB) on startup is less than desired GPU memory utilization "
     "(0.9, 21.3 GiB)."), "out_of_gpu_memory"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.6 GiB",
     "out_of_gpu_memory"),
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
     "out_of_gpu_memory"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out_of_gpu_memory"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "driver_mismatch"),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "driver_mismatch"),
    (("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / "
     "cuda driver combination"), "driver_mismatch"),
    ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "cuda_error"),
    ("RuntimeError: CUDA error: unspecified launch failure", "cuda_error"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`", "cuda_error"),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384, unhandled cuda error",
     "nccl_error"),
    ("RuntimeError: NCCL error: ncclSystemError: System call (e.g. socket, malloc) failed", "nccl_error"),
    ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
     "compute_capability_too_low"),
    ("ValueError: The quantization method fp8 requires GPU with compute capability 8.9", "compute_capability_too_low"),
    ("ValueError: World size (4) is larger than the number of available GPUs (2) in this node.",
     "tensor_parallel_invalid"),
    ("NVMLError_GpuIsLost: GPU is lost", "needs_reboot"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "needs_reboot"),
    ("OSError: [Errno 28] No space left on device: '/var/lib/poolhouse/engines/dep_1/home/.cache'", "disk_full"),
    ("OSError: [Errno 28] No space left on device: '/psm_2f1c09d4'", "shared_memory_full"),
    ("OSError: [Errno 12] Cannot allocate memory", "out_of_memory"),
    (("RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to allocate 4294967296 bytes."), "out_of_memory"),
    ("ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}", "weights_damaged"),
    ("Unable to find image 'vllm/vllm-openai@sha256:00' locally", "container_image_missing"),
    ("docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
     "container_failed"),
    ("docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].",
     "container_failed"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code"), LINES)
def test_failures_of_gpus_are_named(line: str, code: str) -> None:
    found = vllm_log.classify(f"INFO ok\n{line}\n", fallback=FALLBACK)

    assert found.code == code
    assert found.detail


def test_every_cause_of_the_catalogue_has_a_log_that_shows_it() -> None:
    assert {code for code, _ in vllm_log._CAUSES} <= set(CODES.values()) | {code for _, code in LINES}


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
