"""Messages of rounds of checks: what is asked, what is reported, what is answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.protocol.reading import Reader

MAX_RESULTS = 64
_MAX_VERDICTS = 64


@dataclass(frozen=True, slots=True)
class WantedRound:
    """A round that the portal asks for."""

    round: str
    reason: str = "schedule"
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class VerdictReply:
    """What the portal makes of one result."""

    id: str
    subject: str
    verdict: str
    code: str
    is_enforced: bool
    wanted: str
    fix: str


@dataclass(frozen=True, slots=True)
class RoundReply:
    """How a report was taken."""

    state: str
    verdicts: tuple[VerdictReply, ...] = ()


def report_body(
    *, name: str, state: str, code: str = "", percent: int = 0, doing: str = "",
    results: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """The body of a report; at most MAX_RESULTS results."""
    return {
        "round": name, "state": state, "code": code, "percent": percent, "doing": doing[:80],
        "results": [dict(one) for one in results[:MAX_RESULTS]],
    }  # fmt: skip


def read_wanted(value: object) -> WantedRound | None:
    """Read the round of a heartbeat's answer; None where none is asked for. Raises PortalError."""
    if value is None:
        return None
    reader = Reader(value, where="the wanted round")
    return WantedRound(
        round=reader.text("round", limit=40),
        reason=reader.text("reason", limit=16, default="schedule"),
        is_whole=reader.flag("is_whole", default=False),
    )


def read_report(value: object) -> RoundReply:
    """Read the answer to a report. Raises PortalError."""
    reader = Reader(value, where="the answer to a report")
    return RoundReply(
        state=reader.text("state", limit=16, default=""),
        verdicts=tuple(_verdict(one) for one in reader.items("verdicts", limit=_MAX_VERDICTS)),
    )


def _verdict(value: object) -> VerdictReply:
    reader = Reader(value, where="a verdict")
    return VerdictReply(
        id=reader.text("id", limit=48),
        subject=reader.text("subject", limit=96, default=""),
        verdict=reader.text("verdict", limit=16),
        code=reader.text("code", limit=48, default=""),
        is_enforced=reader.flag("is_enforced", default=False),
        wanted=reader.text("wanted", limit=120, default=""),
        fix=reader.text("fix", limit=1000, default=""),
    )
