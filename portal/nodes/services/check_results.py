"""Results of checks: judged when they come, by the policy and the reference figures of that moment."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction
from poolhouse_common import checks as catalogue
from poolhouse_common import failures, limits
from poolhouse_common.check import Subject

from portal.accounts.models import Role
from portal.accounts.selectors import members
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import InvalidValue, NotFound
from portal.nodes.models import CheckMode, CheckResult, CheckRound, Gpu, Opinion, Verdict
from portal.nodes.rules.checks import ResultClaim, judge
from portal.nodes.selectors import check_figures
from portal.nodes.services import moves
from portal.notifications import services as notifications

_TOLD_A_DAY = "%Y-%m-%d"


def take(*, row: CheckRound, claims: Sequence[ResultClaim], now: datetime) -> list[CheckResult]:
    """Judge and store results of an open round, under the node's lock; one that is there already stays as it is."""
    if not claims:
        return []
    known = check_figures.Known.load()
    names = dict(Gpu.objects.filter(node=row.node).values_list("uuid", "name"))
    made = [_judged(row, claim, known, names, now=now) for claim in claims]
    there = set(CheckResult.objects.filter(round=row).values_list("check_id", "subject"))
    fresh = [one for one in made if (one.check_id, one.subject) not in there]
    CheckResult.objects.bulk_create(fresh, ignore_conflicts=True)
    for one in fresh:
        if one.verdict == Verdict.FAIL and one.is_enforced:
            _tell(one, now=now)
    return made


def told(result: CheckResult) -> Mapping[str, object]:
    """Return what the agent is told of a result."""
    check = catalogue.find(result.check_id)
    wanted = limits.limit_text(result.limit_milli, check=check) if check else ""
    return {
        "id": result.check_id, "subject": result.subject, "verdict": result.verdict, "code": result.verdict_code,
        "is_enforced": result.is_enforced, "wanted": wanted,
        "fix": failures.explain(result.verdict_code).fix if result.verdict_code else "",
    }  # fmt: skip


def give_opinion(*, result_id: int, opinion: str, actor: Actor, now: datetime) -> CheckResult:
    """Note what the operator found when looking; a false alarm takes the effect away. Raises NotFound, InvalidValue."""
    if opinion not in Opinion.values:
        raise InvalidValue("there is no such opinion", param="opinion")
    with transaction.atomic():
        row = CheckResult.objects.select_for_update(of=("self",)).select_related("node").filter(pk=result_id).first()
        if row is None:
            raise NotFound("there is no such result", param="result")
        row.opinion, row.opinion_by, row.opinion_at = Opinion(opinion), actor.public_id, now
        row.save(update_fields=["opinion", "opinion_by", "opinion_at"])
        detail: dict[str, object] = {"check": row.check_id, "subject": row.subject, "opinion": opinion}
        audit.record(actor=actor, event="check_result.judged", subject=row.node.public_id, now=now, detail=detail)
    return row


def _judged(
    row: CheckRound, claim: ResultClaim, known: check_figures.Known, names: Mapping[str, str], *, now: datetime
) -> CheckResult:
    check, policy = catalogue.find(claim.id), known.policy(claim.id)
    hardware = names.get(claim.subject, "") if check and check.subject == Subject.GPU else ""
    reference = known.reference(check=claim.id, hardware=hardware) if check and check.is_compared else None
    judgement = judge(claim, policy=policy, reference_milli=reference)
    return CheckResult(
        round=row, node=row.node, check_id=claim.id, version=claim.version, subject=claim.subject, hardware=hardware,
        status=claim.status, code=claim.code, detail=claim.detail, figure_milli=claim.figure_milli,
        unit=check.unit if check else "", evidence=dict(claim.evidence), verdict=judgement.verdict,
        verdict_code=judgement.code, is_enforced=policy.mode == CheckMode.ENFORCED, policy_revision=policy.revision,
        reference_milli=reference, limit_milli=judgement.limit_milli, at=now,
    )  # fmt: skip


def _tell(result: CheckResult, *, now: datetime) -> None:
    """Put the failure among the node's events and write to its owners, once a day each."""
    node, failure = result.node, failures.explain(result.verdict_code)
    moves.note(node=node, code=result.verdict_code, now=now, detail={"check": result.check_id, "reason": result.detail})
    everyone = members.members_of(organization=node.provider.organization)
    owners = [membership for membership in everyone if membership.role == Role.OWNER]
    day = now.strftime(_TOLD_A_DAY)
    for membership in owners:
        notifications.send(
            key=f"check:{node.pk}:{result.check_id}:{result.verdict_code}:{day}:{membership.user.pk}"[:120],
            to=membership.user.email,
            template="node_check_failed",
            context={
                "node": node.name, "node_id": node.public_id, "check": result.check_id, "detail": result.detail,
                "code": failure.code, "title": failure.title, "cause": failure.cause, "fix": failure.fix,
            },
            now=now,
        )  # fmt: skip
