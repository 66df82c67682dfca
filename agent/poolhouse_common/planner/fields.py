"""Reads numbers and words of a config.json, which a stranger wrote."""

from collections.abc import Mapping

from poolhouse_common.planner.errors import ConfigRefused

LARGEST = 1 << 40
Config = Mapping[str, object]


def number(config: Config, *names: str, default: int | None = None) -> int:
    """Return the first of the named fields that holds a number ≥ 0. Raises ConfigRefused where none does."""
    for name in names:
        value = config.get(name)
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, int) and 0 <= value <= LARGEST:
            return value
        raise ConfigRefused("model_config_invalid", f"{name} is {str(value)[:40]!r}, not a number in range")
    if default is None:
        raise ConfigRefused("model_config_invalid", f"{names[0]} is missing")
    return default


def positive(config: Config, *names: str) -> int:
    """Return the first of the named fields, at least 1. Raises ConfigRefused."""
    found = number(config, *names)
    if not found:
        raise ConfigRefused("model_config_invalid", f"{names[0]} is 0")
    return found


def word(config: Config, name: str) -> str:
    """Return a field's text, "" where it has none."""
    value = config.get(name)
    return value if isinstance(value, str) else ""


def words(config: Config, name: str) -> list[str]:
    """Return a field's list of texts, empty where it is none."""
    value = config.get(name)
    return [str(one) for one in value] if isinstance(value, list) else []


def switch(config: Config, name: str, *, default: bool = False) -> bool:
    """Return a field that is true or false."""
    value = config.get(name)
    return value if isinstance(value, bool) else default


def inner(config: Config, name: str) -> Config:
    """Return the object in a field, empty where there is none."""
    value = config.get(name)
    return value if isinstance(value, Mapping) else {}
