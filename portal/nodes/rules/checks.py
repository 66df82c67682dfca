"""What the portal makes of a node's result. Everything in a result is a claim of the node."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from poolhouse_common import checks as catalogue
from poolhouse_common import limits
from poolhouse_common.check import Check

MAX_RESULTS = 64
_SKIP = "skip"


@dataclass(frozen=True, slots=True)
class ResultClaim:
    """One result as the node reports it."""

    id: str
    version: int
    status: str
    subject: str = ""
    code: str = ""
    detail: str = ""
    figure_milli: int | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a check is judged; percentages are of the reference figure, limits in thousandths of the unit."""

    mode: str = "shadow"
    revision: int = 0
    fail_percent: int = 70
    warn_percent: int = 85
    most_percent: int = 115
    fail_limit_milli: int | None = None
    warn_limit_milli: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with its code, and the limit that decided it."""

    verdict: str
    code: str = ""
    limit_milli: int | None = None


def default_policy(check: str) -> Policy:
    """Return how a check is judged that the operator has said nothing of: in shadow, by its own limits."""
    known = catalogue.find(check)
    if known is None:
        return Policy()
    return Policy(fail_limit_milli=known.fail_limit_milli, warn_limit_milli=known.warn_limit_milli)


def judge(claim: ResultClaim, *, policy: Policy, reference_milli: int | None) -> Judgement:
    """Return the verdict. What cannot be compared waits for a person: it is never taken for zero."""
    if claim.status == _SKIP or policy.mode == "off":
        return Judgement(_SKIP, claim.code)
    known = catalogue.find(claim.id)
    if _found_wrong(claim, known):
        return Judgement("fail" if claim.status == "fail" else "warn", claim.code)
    if known is None or claim.version != known.version:
        return Judgement("review", "check_unknown")
    if not known.unit:
        return Judgement("pass")
    return _measured(claim.figure_milli, known, policy, reference_milli)


def _measured(figure: int | None, known: Check, policy: Policy, reference: int | None) -> Judgement:
    if figure is None:
        return Judgement("review", "figure_missing")
    return _compared(figure, known, policy, reference) if known.is_compared else _limited(figure, known, policy)


def reference_name(gpu_name: str) -> str | None:
    """Return the name under which a card may be compared; None for laptop and cut-down kinds of a known name."""
    return None if _LESSER.search(gpu_name) else gpu_name


def median_milli(figures: list[int]) -> int | None:
    """Return the middle figure, the lower of two; None where there is none."""
    return sorted(figures)[(len(figures) - 1) // 2] if figures else None


def false_alarm_bps(*, alarms: int, healthy: int) -> int | None:
    """Return which share of healthy nodes a check would have failed, in basis points; None where none was tested."""
    return alarms * 10_000 // healthy if healthy else None


def _found_wrong(claim: ResultClaim, known: Check | None) -> bool:
    """Tell whether the agent itself saw something other than a figure beyond its limit: that one is judged here."""
    if claim.status not in {"warn", "fail"}:
        return False
    is_about_figure = known is not None and known.unit and claim.figure_milli is not None and claim.code == known.code
    return not is_about_figure


def _compared(figure: int, known: Check, policy: Policy, reference: int | None) -> Judgement:
    if reference is None:
        return Judgement("review", "hardware_unknown")
    least, wanted, most = (
        reference * percent // 100 for percent in (policy.fail_percent, policy.warn_percent, policy.most_percent)
    )
    if figure > most:
        return Judgement("review", "figure_implausible", most)
    if figure < least:
        return Judgement("fail", known.code, least)
    return Judgement("warn", known.code, wanted) if figure < wanted else Judgement("pass", "", wanted)


def _limited(figure: int, known: Check, policy: Policy) -> Judgement:
    fail, warn = policy.fail_limit_milli, policy.warn_limit_milli
    match limits.against(figure, check=known, fail_milli=fail, warn_milli=warn):
        case limits.FAIL:
            return Judgement("fail", known.code, fail)
        case limits.WARN:
            return Judgement("warn", known.code, warn)
    return Judgement("pass", "", fail if warn is None else warn)


_LESSER = re.compile(r"laptop|mobile|max-?q|\bd\b", re.IGNORECASE)
