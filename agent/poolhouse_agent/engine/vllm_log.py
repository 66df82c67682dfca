"""Why vLLM did not start or died: it exits with 1 for nearly everything, the cause is in its log."""

import re
from collections.abc import Sequence

from poolhouse_agent.errors import EngineError

_CAUSES: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        ("out_of_gpu_memory", r"Free memory on device .* is less than desired GPU memory utilization"),
        ("out_of_gpu_memory", r"No available memory for the cache blocks|CUDA out of memory|torch\.OutOfMemoryError"),
        ("context_does_not_fit", r"To serve at least one request with the model.s max seq len"),
        ("context_does_not_fit", r"max_model_len \(\d+\) is greater than the derived max_model_len"),
        ("tensor_parallel_invalid", r"attention heads \(\d+\) must be divisible by tensor parallel size"),
        ("driver_mismatch", r"CUDA driver version is insufficient|Error 803|no kernel image is available"),
        ("compute_capability_too_low", r"requires? (?:a )?(?:GPU with )?compute capability|Minimum capability"),
        ("needs_reboot", r"Unable to determine the device handle|GPU is lost|fallen off the bus"),
        ("weights_missing", r"Repo id must be in the form|Cannot find an appropriate cached snapshot|No such file or "),
        ("weights_mismatch", r"SafetensorError|incomplete metadata|MetadataIncompleteBuffer"),
        ("engine_version_unsupported", r"unrecognized arguments|does not recognize this architecture"),
        ("engine_version_unsupported", r"Model architectures \[.*\] (?:failed|are not supported)"),
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
