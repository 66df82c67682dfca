"""Bills of those who pay afterwards: made of closed months, settled oldest first, overdue ones stop the line."""

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import Postpaid, PostpaidBill, PostpaidState, StatementKind
from portal.billing.rules import postpaid as rules
from portal.billing.rules.periods import Period
from portal.billing.selectors import postpaid as selectors
from portal.billing.selectors import statements as statement_selectors
from portal.billing.selectors.statements import Party
from portal.billing.services import credit_messages, credit_templates, ledger, postpaid, statements
from portal.core.errors import Conflict

log = logging.getLogger(__name__)
_MONTHS_BACK = 3


class OlderBillOpen(Conflict):
    """An older bill is still open; what is settled counts for that one first."""

    code = "older_bill_open"


class BillSettled(Conflict):
    """Nothing of the bill is open."""

    code = "bill_settled"


def make_due(*, now: datetime) -> int:
    """Make the bills that closed months still lack, oldest month first; return how many were made."""
    made = 0
    for period in reversed(statement_selectors.closed_periods(limit=_MONTHS_BACK)):
        for organization in selectors.without_bill(starts_at=period.starts_at):
            made += make(organization=organization, period=period, now=now) is not None
    return made


def make(*, organization: Organization, period: Period, now: datetime) -> PostpaidBill | None:
    """Make the bill of one closed month, once; None where nothing was drawn in it. Raises PeriodNotOver."""
    owner = organization.public_id
    drawn = selectors.drawn_until(organization=owner, at=period.ends_at, since=period.starts_at)
    if not drawn:
        return None
    statement = statements.freeze(party=Party(StatementKind.CUSTOMER, owner), period=period, now=now)
    with transaction.atomic():
        terms = locks.postpaid(organization.pk)
        known = PostpaidBill.objects.filter(organization=organization, starts_at=period.starts_at).first()
        if known is not None or terms is None:
            return known
        total = selectors.drawn_until(organization=owner, at=period.ends_at)
        settled = selectors.settled(organization=owner)
        open_nano = rules.outstanding(total_drawn_nano=total, drawn_nano=drawn, settled_nano=settled)
        bill = PostpaidBill.objects.create(
            organization=organization,
            statement=statement,
            starts_at=period.starts_at,
            ends_at=period.ends_at,
            drawn_nano=drawn,
            total_drawn_nano=total,
            due_nano=open_nano,
            made_at=now,
            due_at=rules.due_at(made_at=now, due_days=terms.due_days),
            settled_at=None if open_nano else now,
        )
        _record(bill, "bill.made", {"due_nano": str(open_nano)}, SYSTEM_ACTOR, now)
        if open_nano:
            credit_messages.bill_made(bill=bill, now=now)
    return bill


def watch(*, now: datetime) -> int:
    """Note which bills were paid, stop those who are overdue and let go on those who are not; return how many moved."""
    return sum(watch_one(organization_id=organization_id, now=now) for organization_id in selectors.watched())


def watch_one(*, organization_id: int, now: datetime) -> bool:
    """Bring one organization's bills and line to what was paid; tell whether its line was stopped or let go."""
    with transaction.atomic():
        terms = locks.postpaid(organization_id)
        if terms is None:
            return False
        late = _late(terms, now)
        has_moved = True
        if late and terms.state == PostpaidState.ACTIVE:
            postpaid.stop(terms, reason=f"bill {late[0].public_id} is overdue", actor=SYSTEM_ACTOR, now=now)
        elif not late and terms.state == PostpaidState.STOPPED:
            postpaid.resume(terms, actor=SYSTEM_ACTOR, now=now)
        else:
            has_moved = False
    if terms.state != PostpaidState.ACTIVE:
        postpaid.fence(organization=terms.organization)
    return has_moved


def _late(terms: Postpaid, now: datetime) -> list[PostpaidBill]:
    """Settle the bills that were paid; return those that are overdue, oldest first."""
    late = []
    for one in selectors.with_open(selectors.unsettled(organization_id=terms.organization_id)):
        if not one.is_open:
            one.bill.settled_at = now
            one.bill.save(update_fields=["settled_at"])
            _record(one.bill, "bill.settled", {}, SYSTEM_ACTOR, now)
        elif one.bill.due_at <= now:
            late.append(one.bill)
            credit_messages.bill_overdue(bill=one.bill, open_nano=one.open_nano, now=now)
    return late


def write_off(*, public_id: str, reason: str, actor: Actor, now: datetime) -> PostpaidBill:
    """Give up what of a bill is open: a loss, and so much less limit; the line stays stopped until a new offer.

    Raises NotFound, BillSettled, OlderBillOpen.
    """
    found = selectors.bill(public_id=public_id)
    owner = found.organization.public_id
    with transaction.atomic():
        terms = locks.postpaid(found.organization_id)
        first = next(
            (
                one
                for one in selectors.with_open(selectors.unsettled(organization_id=found.organization_id))
                if one.is_open
            ),
            None,
        )
        mine = selectors.with_open([found])[0]
        if not mine.is_open or first is None:
            raise BillSettled("nothing of this bill is open")
        if first.bill.pk != found.pk:
            raise OlderBillOpen(f"bill {first.bill.public_id} is older and open", fix="decide about that one first")
        ledger.post(
            kind="postpaid_write_off",
            key=f"postpaid-write-off:{found.public_id}",
            source_type="bill",
            source_id=found.public_id,
            transfers=credit_templates.postpaid_written_off(
                organization=owner, amount=mine.open_nano, currency=settings.CURRENCY
            ),
            actor=actor,
            now=now,
            note=reason[:240],
        )
        found.written_off_nano, found.settled_at = mine.open_nano, now
        found.save(update_fields=["written_off_nano", "settled_at"])
        if terms is not None:
            terms.state, terms.state_reason = PostpaidState.ENDED, f"bill {found.public_id} was written off"
            terms.limit_nano = 0
            terms.save(update_fields=["state", "state_reason", "limit_nano"])
        _record(found, "bill.written_off", {"nano": str(mine.open_nano), "reason": reason}, actor, now)
    postpaid.fence(organization=found.organization)
    return found


def _record(bill: PostpaidBill, event: str, detail: dict[str, object], actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=bill.public_id,
        now=now,
        organization=bill.organization.public_id,
        detail=detail,
    )
