"""What a deployment may ask of a node."""

import re
from collections.abc import Callable, Mapping

from portal.core.errors import DomainError, InvalidValue

MAX_CONCURRENCY = 4096
_FASTEST_SIMULATION = 100_000  # tokens a second
_LONGEST_SIMULATED_VECTOR = 8192
_LEAST_SHARE, _MOST_SHARE = 0.3, 0.97  # of a card's memory
_GPU = re.compile(r"GPU-[0-9a-fA-F-]{8,60}")


class ExternalEngineRefused(DomainError):
    """This provider may not serve from servers that the agent did not start."""

    code = "external_engine_refused"


class SimulatedEngineRefused(DomainError):
    """The simulator is for simulated nodes, real engines are for real ones."""

    code = "simulated_engine_refused"


def require_engine(*, engine: str, is_simulated: bool, may_use_external: bool) -> None:
    """Raise ExternalEngineRefused or SimulatedEngineRefused where the node may not use the engine."""
    if engine == "external" and not may_use_external:
        raise ExternalEngineRefused("external engines are for house nodes and approved providers", param="engine")
    if (engine == "simulate") != is_simulated and engine != "external":
        raise SimulatedEngineRefused("the simulator serves simulated nodes, and only those", param="engine")


def require_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings where each name and value is known. Raises InvalidValue."""
    for name, value in settings.items():
        accepts = _SETTINGS.get(name)
        if accepts is None or not accepts(value):
            raise InvalidValue(f"the setting {name[:48]!r} is unknown or cannot have this value", param="settings")
    return dict(settings)


def require_concurrency(value: int) -> int:
    """Return the value within bounds. Raises InvalidValue."""
    if not 1 <= value <= MAX_CONCURRENCY:
        raise InvalidValue(f"use 1 to {MAX_CONCURRENCY}", param="max_concurrency")
    return value


def _is_gpu_list(value: object) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= 8  # noqa: PLR2004  no engine here spans more
        and all(isinstance(uuid, str) and _GPU.fullmatch(uuid) for uuid in value)
    )


def _is_share(value: object) -> bool:
    return _LEAST_SHARE <= float(str(value)) <= _MOST_SHARE


_SETTINGS: Mapping[str, Callable[[object], bool]] = {
    "gpu_uuids": _is_gpu_list,
    "gpu_memory_utilization": lambda value: type(value) in {int, float} and _is_share(value),
    "tensor_parallel_size": lambda value: type(value) is int and value in {1, 2, 4, 8},
    "tokens_per_second": lambda value: type(value) is int and 1 <= value <= _FASTEST_SIMULATION,
    "embedding_dimensions": lambda value: type(value) is int and 1 <= value <= _LONGEST_SIMULATED_VECTOR,
}
