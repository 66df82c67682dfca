"""One check's result."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from poolhouse_common import checks as catalogue
from poolhouse_common import failures, limits

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
    """What a check found; `evidence` holds the raw figures, `code` the failure's name where there is one.

    `subject` says of what where a check has several (a GPU's UUID, a model); `figure` is in the check's `unit`;
    `threshold` says what was demanded of it.
    """

    id: str
    status: Status
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""
    code: str = ""
    version: int = 1
    subject: str = ""
    figure: float | None = None
    unit: str = ""
    threshold: str = ""

    @property
    def sentence(self) -> str:
        """What was found, for people: with the failure's title and code where there is one."""
        if not self.code:
            return self.detail
        return ": ".join(filter(None, (failures.explain(self.code).title, self.detail))) + f" [{self.code}]"

    def as_json(self) -> dict[str, Any]:
        """The result as `doctor --json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the checks may look at."""

    state: State
    config: Config
    gpus: GpuReport
    server: str = ""  # a pool that the machine has not joined yet


Check = Callable[[Surroundings], Awaitable[list[Result]]]


def ok(check: str, detail: str, **evidence: Any) -> Result:
    """A check that found nothing wrong."""
    return Result(check, Status.OK, detail, evidence, version=catalogue.version(check))


def skipped(check: str, detail: str, *, code: str = "", subject: str = "") -> Result:
    """A check that does not apply here, or could not be made now."""
    return Result(
        check, Status.SKIP, detail, fix=fix_of(code), code=code, version=catalogue.version(check), subject=subject
    )


def trouble(check: str, status: Status, code: str, detail: str, **evidence: Any) -> Result:
    """A check that found the failure `code`."""
    return Result(check, status, detail, evidence, fix_of(code), code, version=catalogue.version(check))


def measured(
    check: str,
    figure: float,
    *,
    subject: str = "",
    detail: str = "",
    evidence: Mapping[str, Any] = MappingProxyType({}),
) -> Result:
    """A figure, held against the limits that hold on every machine; what depends on the card the portal compares."""
    known = catalogue.CHECKS[check]
    milli = round(figure * 1000)
    word = limits.against(milli, check=known, fail_milli=known.fail_limit_milli, warn_milli=known.warn_limit_milli)
    code = "" if word == limits.OK else known.code
    return Result(
        check, Status(word), detail, dict(evidence), fix_of(code), code, known.version, subject, round(figure, 3),
        known.unit,
        limits.limit_text(known.fail_limit_milli if word == limits.FAIL else known.warn_limit_milli, check=known),
    )  # fmt: skip
