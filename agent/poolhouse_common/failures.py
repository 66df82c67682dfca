"""The one failure catalogue: the same code, cause and fix in the agent, the API, the pages and the webhooks."""

from collections.abc import Mapping
from types import MappingProxyType

from poolhouse_common.failure import Failure
from poolhouse_common.failure_entries import (
    answers,
    checks,
    engine,
    gpu,
    joining,
    machine,
    owner,
    placement,
    planning,
    readings,
    receipts,
    releases,
    standing,
)

_ENTRIES = (
    *joining.ENTRIES,
    *standing.ENTRIES,
    *gpu.ENTRIES,
    *engine.ENTRIES,
    *machine.ENTRIES,
    *planning.ENTRIES,
    *readings.ENTRIES,
    *owner.ENTRIES,
    *placement.ENTRIES,
    *releases.ENTRIES,
    *answers.ENTRIES,
    *receipts.ENTRIES,
    *checks.ENTRIES,
)

FAILURES: Mapping[str, Failure] = MappingProxyType({entry.code: entry for entry in _ENTRIES})

if len(FAILURES) != len(_ENTRIES):
    raise ValueError("two entries of the failure catalogue share a code")


def find(code: str) -> Failure | None:
    """Return the entry of `code`, or None where the catalogue does not know it."""
    return FAILURES.get(code)


def explain(code: str) -> Failure:
    """Return the entry of `code`; an unknown code (a newer agent may report one) still gets a cause and a fix."""
    return FAILURES.get(code) or Failure(
        code=code,
        source="node",
        title=code.replace("_", " ").capitalize() or "Unknown failure",
        cause="This version of the pool does not know the code; a newer agent may have reported it.",
        fix="Run `poolhouse-agent doctor` on the machine; its output names the failed check.",
    )
