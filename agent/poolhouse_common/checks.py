"""The one list of health checks and benchmarks: the same id, version, unit and limit in the agent and the portal."""

from collections.abc import Mapping
from types import MappingProxyType

from poolhouse_common.check import Check
from poolhouse_common.check_entries import gpu, looks, machine, serving

_ENTRIES = (*gpu.ENTRIES, *machine.ENTRIES, *serving.ENTRIES, *looks.ENTRIES)

CHECKS: Mapping[str, Check] = MappingProxyType({entry.id: entry for entry in _ENTRIES})

if len(CHECKS) != len(_ENTRIES):
    raise ValueError("two entries of the list of checks share an id")


def find(check: str) -> Check | None:
    """Return the entry of an id, or None where this version does not know it."""
    return CHECKS.get(check)


def version(check: str) -> int:
    """Return the version of a check; 1 for one that has no entry."""
    found = CHECKS.get(check)
    return found.version if found else 1
