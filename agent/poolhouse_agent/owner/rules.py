"""The owner's rules: `[owner]` of the configuration file, over it what the owner set by command, and nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import amounts, windows
from poolhouse_agent.owner.windows import Window

_LEAST_CAP_W, _MOST_CAP_W = 10, 2_000
_DEFAULT_YIELD_BYTES = 64 << 20
_MAX_NAMES = 64


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """What the owner allows. Sizes are bytes, None is no limit; without `serve` windows every hour is for serving."""

    zone: tzinfo
    serve: tuple[Window, ...] = ()
    quiet: tuple[Window, ...] = ()
    is_yielding: bool = True
    yield_bytes: int = _DEFAULT_YIELD_BYTES
    yield_ignored: frozenset[str] = frozenset()
    power_cap_w: int | None = None
    download_day_bytes: int | None = None
    download_month_bytes: int | None = None


def read(table: Mapping[str, Any], *, where: str | Path) -> OwnerRules:
    """Read a table of rules; a value of None is as if it were not there. Raises ConfigError."""
    known = {name: value for name, value in table.items() if value is not None}
    if unknown := set(known) - set(READERS):
        raise ConfigError("config_invalid", f"{where}: unknown key {min(unknown)!r} in [owner]")
    read_values = {"timezone": _reading("timezone", known.get("timezone", ""), where)}
    read_values |= {name: _reading(name, value, where) for name, value in known.items()}
    return OwnerRules(**{_FIELDS[name]: value for name, value in read_values.items()})


def _reading(name: str, value: Any, where: str | Path) -> Any:
    try:
        return READERS[name](value)
    except ValueError as error:
        raise ConfigError("config_invalid", f"{where}: {name} of [owner]: {error}") from None


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > _MAX_NAMES or not all(isinstance(item, str) for item in value):
        raise ValueError("not a list of texts")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")  # noqa: TRY004  read alike with every other wrong value
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")  # noqa: TRY004  as above
    return value


def _watts(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not _LEAST_CAP_W <= value <= _MOST_CAP_W:
        raise ValueError(f"not a whole number of watts from {_LEAST_CAP_W} to {_MOST_CAP_W}")
    return int(value)


READERS: Mapping[str, Callable[[Any], Any]] = {
    "timezone": lambda value: windows.machine_zone(_text(value)),
    "serve": lambda value: windows.parse_all(_texts(value)),
    "quiet": lambda value: windows.parse_all(_texts(value)),
    "yield": _flag,
    "yield_memory": lambda value: amounts.size_bytes(_text(value)),
    "yield_ignore": lambda value: frozenset(_texts(value)),
    "power_cap_w": _watts,
    "download_day": lambda value: amounts.size_bytes(_text(value)),
    "download_month": lambda value: amounts.size_bytes(_text(value)),
}
_FIELDS: Mapping[str, str] = {
    "timezone": "zone",
    "serve": "serve",
    "quiet": "quiet",
    "yield": "is_yielding",
    "yield_memory": "yield_bytes",
    "yield_ignore": "yield_ignored",
    "power_cap_w": "power_cap_w",
    "download_day": "download_day_bytes",
    "download_month": "download_month_bytes",
}
