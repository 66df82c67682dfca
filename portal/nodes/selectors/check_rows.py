"""Ready values of checks for the pages of providers and of the operator."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poolhouse_common import checks as catalogue
from poolhouse_common import limits
from poolhouse_common.check import Check

from portal.nodes.models import OPEN_ROUNDS, CheckMode, CheckResult, CheckRound, Gpu, Node, Opinion, Verdict
from portal.nodes.rules.checks import Policy
from portal.nodes.selectors import check_figures, checks
from portal.nodes.selectors.rows import Explained, explained

_ORDER = [Verdict.FAIL, Verdict.REVIEW, Verdict.WARN, Verdict.PASS, Verdict.SKIP]
_MOST_EVIDENCE = 4_000


@dataclass(frozen=True, slots=True)
class RoundRow:
    """The newest round of a node."""

    state: str
    is_open: bool
    reason: str
    percent: int
    doing: str
    asked_at: datetime
    ended_at: datetime | None
    why: Explained | None


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The newest result of one check and subject."""

    result_id: int
    check_id: str
    version: int
    title: str
    purpose: str
    subject: str
    figure: str
    wanted: str
    verdict: str
    what: Explained | None
    detail: str
    is_enforced: bool
    false_alarm_bps: int | None
    opinion: str
    at: datetime
    evidence: str
    node_name: str = ""
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class NodeChecks:
    """What is known of a node's checks; `counts` are by verdict."""

    round: RoundRow | None
    rows: Sequence[ResultRow]
    counts: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check over the fleet, with how it is judged."""

    check: Check
    policy: Policy
    mode: str
    fleet: checks.FleetFigures | None
    fail_limit: str
    warn_limit: str


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A reference figure of some hardware: the operator's, or what is known of its kind, beside what nodes reach."""

    hardware: str
    figure: str
    is_own: bool
    source: str
    learned: str
    learned_nodes: int


def node_checks(*, node: Node, now: datetime) -> NodeChecks:
    """Return the newest round and results of a node, the worst first."""
    results = checks.latest_results(node=node)
    subjects = {gpu.uuid: f"GPU {gpu.index}" for gpu in Gpu.objects.filter(node=node)}
    failing = {row.check_id for row in results if row.verdict == Verdict.FAIL}
    fleet = checks.fleet_figures(now=now, only=failing) if failing else {}
    rows = [result_row(row, subjects=subjects, fleet=fleet) for row in results]
    rows.sort(key=lambda row: (_ORDER.index(Verdict(row.verdict)), row.check_id, row.subject))
    return NodeChecks(_round(checks.last_round(node=node)), rows, _counts(results))


def summary(*, node: Node) -> NodeChecks:
    """Return the same without the rows, for a card."""
    return NodeChecks(_round(checks.last_round(node=node)), (), _counts(checks.latest_results(node=node)))


def result_row(row: CheckResult, *, subjects: Mapping[str, str], fleet: Mapping[str, checks.FleetFigures]) -> ResultRow:
    """Return one result."""
    known, figures = catalogue.find(row.check_id), fleet.get(row.check_id)
    return ResultRow(
        result_id=row.pk,
        check_id=row.check_id,
        version=row.version,
        title=known.title if known else row.check_id,
        purpose=known.purpose if known and row.verdict != Verdict.PASS else "",
        subject=subjects.get(row.subject, row.subject),
        figure="" if row.figure_milli is None else f"{limits.number(row.figure_milli)} {row.unit}",
        wanted=limits.limit_text(row.limit_milli, check=known) if known else "",
        verdict=row.verdict,
        what=explained(row.verdict_code) if row.verdict_code else None,
        detail=row.detail,
        is_enforced=row.is_enforced,
        false_alarm_bps=figures.false_alarm_bps if figures else None,
        opinion=Opinion(row.opinion).label if row.opinion else "",
        at=row.at,
        evidence=json.dumps(row.evidence, indent=1)[:_MOST_EVIDENCE] if row.evidence else "",
        node_name=row.node.name,
        node_id=row.node.public_id,
    )


def check_rows(*, now: datetime) -> list[CheckRow]:
    """Return every check with its policy and how it does over the fleet."""
    known, fleet = check_figures.Known.load(), checks.fleet_figures(now=now)
    return [_check_row(check, known, fleet) for check in catalogue.CHECKS.values()]


def check_row(*, check: Check, now: datetime) -> CheckRow:
    """Return one check."""
    return _check_row(check, check_figures.Known.load(), checks.fleet_figures(now=now))


def figure_rows(*, check: Check, now: datetime) -> list[FigureRow]:
    """Return the reference figures of a check, known and given, and what at least three nodes reach."""
    known = check_figures.Known.load()
    shipped = {kind.name: check_figures.shipped_milli(kind, check.id) for kind in known.kinds}
    own = {row.hardware: row for (_, of), row in known.figures.items() if of == check.id}
    seen = {row.hardware: row for row in check_figures.learned(check=check.id, since=now - checks.WINDOW)}
    names = {name for name, figure in shipped.items() if figure} | set(own) | set(seen)
    return [_figure_row(name, check, own=own, shipped=shipped, seen=seen, known=known) for name in sorted(names)]


def _figure_row(
    name: str, check: Check, *, own: Mapping[str, object], shipped: Mapping[str, int | None],
    seen: Mapping[str, check_figures.Learned], known: check_figures.Known,
) -> FigureRow:  # fmt: skip
    figure = known.reference(check=check.id, hardware=name)
    given, learned = known.figures.get((name.casefold(), check.id)), seen.get(name)
    return FigureRow(
        hardware=name,
        figure="" if figure is None else f"{limits.number(figure)} {check.unit}",
        is_own=name in own,
        source=given.source if given else ("published figures of the kind" if shipped.get(name) else ""),
        learned=f"{limits.number(learned.median_milli)} {check.unit}" if learned else "",
        learned_nodes=learned.nodes if learned else 0,
    )


def _check_row(check: Check, known: check_figures.Known, fleet: Mapping[str, checks.FleetFigures]) -> CheckRow:
    policy = known.policy(check.id)
    return CheckRow(
        check=check,
        policy=policy,
        mode=CheckMode(policy.mode).value,
        fleet=fleet.get(check.id),
        fail_limit=_limit(check, policy.fail_percent, policy.fail_limit_milli),
        warn_limit=_limit(check, policy.warn_percent, policy.warn_limit_milli),
    )


def _limit(check: Check, percent: int, milli: int | None) -> str:
    return f"{percent} % of the reference" if check.is_compared else limits.limit_text(milli, check=check)


def _round(row: CheckRound | None) -> RoundRow | None:
    if row is None:
        return None
    return RoundRow(
        state=row.state,
        is_open=row.state in OPEN_ROUNDS,
        reason=row.get_reason_display(),
        percent=row.percent,
        doing=row.doing,
        asked_at=row.asked_at,
        ended_at=row.ended_at,
        why=explained(row.code) if row.code else None,
    )


def _counts(results: Sequence[CheckResult]) -> list[tuple[str, int]]:
    found = Counter(row.verdict for row in results)
    return [(verdict.value, found[verdict]) for verdict in _ORDER if found[verdict]]
