"""What a check of a payout run found, and whether it may be approved."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

GOOD_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Finding:
    """One check; `status` is ok, warn or fail, and only fail stands in the way."""

    id: str
    status: str
    detail: str
    fix: str = ""


def to_json(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Return findings as they are stored."""
    return [asdict(finding) for finding in findings]


def from_json(stored: Iterable[Mapping[str, str]]) -> list[Finding]:
    """Read stored findings back, those that stand in the way first."""
    rank = {"fail": 0, "warn": 1}
    return sorted((Finding(**each) for each in stored), key=lambda one: (rank.get(one.status, 2), one.id))


def ledger_finding(*, differences: int, example: str) -> Finding:
    """Say whether the ledger agrees with all that it must equal."""
    if not differences:
        return Finding("ledger", "ok", "no differences")
    fix = "run `manage.py ledger_check` and clear up every difference"
    return Finding("ledger", "fail", f"{differences} differences, such as {example}", fix)


def cover_finding(*, needed_minor: int, available_minor: int | None) -> Finding:
    """Say whether the balance at Stripe covers the payouts that wait."""
    if available_minor is None:
        return Finding("cover", "fail", "Stripe did not tell the balance", "check again in a minute")
    detail = f"{available_minor} minor units available at Stripe, {needed_minor} needed"
    if available_minor >= needed_minor:
        return Finding("cover", "ok", detail)
    return Finding("cover", "fail", detail, "top up the balance at Stripe, or cancel payouts; then check again")


def objection(
    *, findings: Iterable[Finding], checked_hash: str, current_hash: str, checked_at: datetime | None, now: datetime
) -> str:
    """Return why a run may not be approved on the ground of its last check; empty where it may."""
    if checked_at is None:
        return "the run is not checked yet"
    if checked_hash != current_hash:
        return "the run has changed since it was checked"
    if now - checked_at > GOOD_FOR:
        return "the check is older than a day"
    red = sorted(finding.id for finding in findings if finding.status == "fail")
    return f"the check found: {', '.join(red)}" if red else ""
