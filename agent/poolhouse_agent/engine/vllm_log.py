"""Why vLLM did not start or died: it exits with 1 for nearly everything, the cause is in its log."""

import re
from collections.abc import Sequence

from poolhouse_agent.errors import EngineError

# In this order: what names the root cause before what follows from it.
_CAUSES: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        ("container_image_missing", r"Unable to find image|No such image|image not known"),
        ("container_failed", r"Cannot connect to the Docker daemon|could not select device driver"),
        ("container_failed", r"Cannot connect to Podman"),
        ("container_failed", r"permission denied while trying to connect to the [Dd]ocker|unresolvable CDI devices"),
        ("context_does_not_fit", r"To serve at least one request with the model.s max seq len"),
        ("context_does_not_fit", r"max_model_len \(\d+\) is greater than the derived max_model_len"),
        ("out_of_gpu_memory", r"Free memory on device .* is less than desired GPU memory utilization"),
        ("out_of_gpu_memory", r"No available memory for the cache blocks|CUDA out of memory|torch\.OutOfMemoryError"),
        ("out_of_gpu_memory", r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
        ("driver_mismatch", r"CUDA driver version is insufficient|Error 803|no kernel image is available"),
        ("driver_mismatch", r"Found no NVIDIA driver|NVIDIA driver on your system is too old"),
        ("needs_reboot", r"Unable to determine the device handle|GPU is lost|fallen off the bus"),
        ("needs_reboot", r"uncorrectable ECC error"),
        ("nccl_error", r"NCCL error|nccl(?:System|Internal|UnhandledCuda|Remote)Error|ncclCommInitRank"),
        ("cuda_error", r"CUDA error: |CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|device-side assert"),
        ("compute_capability_too_low", r"requires? (?:a )?(?:GPU with )?compute capability|Minimum capability"),
        ("compute_capability_too_low", r"Bfloat16 is only supported on GPUs with compute capability"),
        ("tensor_parallel_invalid", r"attention heads \(\d+\) must be divisible by tensor parallel size"),
        ("tensor_parallel_invalid", r"World size \(\d+\) is larger than the number of available GPUs"),
        ("quantization_unsupported", r"Quantization method specified in the model config"),
        ("quantization_unsupported", r"quantization method .* not supported"),
        ("quantization_unsupported", r"Cannot find the config file for \w+|Unknown quantization method"),
        ("weights_damaged", r"SafetensorError|incomplete metadata|MetadataIncompleteBuffer|InvalidHeader"),
        ("weights_damaged", r"size mismatch for|Following weights were not initialized from checkpoint"),
        ("weights_missing", r"Repo id must be in the form|Cannot find an appropriate cached snapshot|No such file or "),
        ("weights_missing", r"Cannot find any model weights|Couldn't instantiate the backend tokenizer"),
        ("shared_memory_full", r"No space left on device.*(?:shm|psm_)|/dev/shm.*No space left on device|Bus error"),
        ("disk_full", r"\[Errno 28\]|No space left on device"),
        ("out_of_memory", r"MemoryError|Cannot allocate memory|DefaultCPUAllocator: (?:can't|not enough)"),
        ("out_of_memory", r"Available memory on node .* is less than requested memory"),
        ("engine_port_taken", r"\[Errno 98\]|[Aa]ddress already in use"),
        ("architecture_unsupported", r"does not recognize this architecture"),
        ("architecture_unsupported", r"Model architectures \[.*\] (?:failed|are not supported)"),
        ("engine_version_unsupported", r"unrecognized arguments|invalid choice"),
    )
)
_LIMIT = re.compile(r"estimated maximum model length is (\d+)")
_SAID = re.compile(r"^(?:\([^)]*\) )?(?:\S*Error|ValueError|  Value error)[:,] (.{1,300})", re.MULTILINE)


def classify(log: str, *, fallback: EngineError) -> EngineError:
    """Return the failure that the log's end tells of, or the fallback with the last error line."""
    for code, pattern in _CAUSES:
        if found := pattern.search(log):
            limit = _LIMIT.search(log)
            return EngineError(code, f"at most {limit[1]} tokens fit" if limit else _line_of(log, found.start()))
    said = _SAID.findall(log)
    return EngineError(fallback.code, "; ".join(filter(None, (fallback.detail, said[-1].strip() if said else ""))))


def _line_of(log: str, at: int) -> str:
    start = log.rfind("\n", 0, at) + 1
    end = log.find("\n", at)
    return log[start : end if end >= 0 else len(log)].strip()[:300]
