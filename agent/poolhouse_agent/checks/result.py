"""One check's result."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from poolhouse_agent.config import Config
from poolhouse_agent.errors import fix_of
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.state import State


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Result:
    """What a check found; `evidence` holds the raw figures, `code` the failure's name where there is one."""

    id: str
    status: Status
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""
    code: str = ""

    def as_json(self) -> dict[str, Any]:
        """The result as `doctor --json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the checks may look at."""

    state: State
    config: Config
    gpus: GpuReport


Check = Callable[[Surroundings], Awaitable[list[Result]]]


def ok(check: str, detail: str, **evidence: Any) -> Result:
    """A check that found nothing wrong."""
    return Result(check, Status.OK, detail, evidence)


def skipped(check: str, detail: str) -> Result:
    """A check that does not apply here."""
    return Result(check, Status.SKIP, detail)


def trouble(check: str, status: Status, code: str, detail: str, **evidence: Any) -> Result:
    """A check that found the failure `code`."""
    return Result(check, status, detail, evidence, fix_of(code), code)
