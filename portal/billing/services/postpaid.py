"""Paying afterwards: an operator offers a limit, the organization accepts, and its line is spent like credit.

The limit and the line are two ledger accounts. Raising the limit by some amount debits the one and credits the other;
usage debits the line alone, so limit less line is what is owed. The line is lent to gateways as credit is, last of
all, and its floor is the limit.
"""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts import locks as account_locks
from portal.accounts.models import Organization, User
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import LedgerAccount, Postpaid, PostpaidState
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.selectors import postpaid as selectors
from portal.billing.services import credit_templates, leases, ledger
from portal.core.errors import Conflict, InvalidValue, NotFound
from portal.integrations import bus

_LONGEST_DAYS = 120
_USED = {PostpaidState.ACTIVE, PostpaidState.STOPPED}


class LimitInUse(Conflict):
    """More of the limit is drawn or held by running requests than the new limit allows."""

    code = "limit_in_use"


class NothingOffered(Conflict):
    """There is no offer to accept."""

    code = "nothing_offered"


@dataclass(frozen=True, slots=True)
class Terms:
    """How much may be owed at most (nano), and how many days after a bill is made it must have been paid."""

    limit_nano: int
    due_days: int


def offer(*, organization: Organization, terms: Terms, operator: User, actor: Actor, now: datetime) -> Postpaid:
    """Invite an organization to pay afterwards; where it does already, its limit changes at once.

    Raises InvalidValue, LimitInUse, OrganizationSuspended.
    """
    if terms.limit_nano <= 0:
        raise InvalidValue("a limit is more than nothing", param="limit")
    if not 1 <= terms.due_days <= _LONGEST_DAYS:
        raise InvalidValue(f"a bill is due after 1 to {_LONGEST_DAYS} days", param="due_days")
    with transaction.atomic():
        require_active(account_locks.organization(organization_id=organization.pk))
        row = locks.postpaid(organization.pk) or Postpaid(organization=organization, limit_nano=0, due_days=1)
        row.limit_nano, row.due_days = terms.limit_nano, terms.due_days
        row.offered_by, row.offered_at = operator, now
        if row.state in _USED:
            _set_limit(row, actor, now)
        else:
            row.state, row.state_reason, row.accepted_by, row.accepted_at = PostpaidState.OFFERED, "", None, None
        row.save()
        _record(row, "postpaid.offered", actor, now)
    return row


def accept(*, organization: Organization, user: User, actor: Actor, now: datetime) -> Postpaid:
    """Take the offer: from now on the line is spent when credit is used up. Raises NothingOffered."""
    with transaction.atomic():
        require_active(account_locks.organization(organization_id=organization.pk))
        row = locks.postpaid(organization.pk)
        if row is None or row.state != PostpaidState.OFFERED:
            raise NothingOffered("there is no offer to accept", fix="ask the pool's operator")
        row.state, row.accepted_by, row.accepted_at = PostpaidState.ACTIVE, user, now
        _set_limit(row, actor, now)
        row.save()
        _record(row, "postpaid.accepted", actor, now)
    return row


def end(*, organization: Organization, reason: str, actor: Actor, now: datetime) -> Postpaid:
    """Draw no more from now on; what is owed stays owed, and is billed. Raises NotFound."""
    with transaction.atomic():
        row = locks.postpaid(organization.pk)
        if row is None:
            raise NotFound("this organization does not pay afterwards")
        row.state, row.state_reason = PostpaidState.ENDED, reason[:240]
        row.limit_nano = 0
        row.save()
        _record(row, "postpaid.ended", actor, now)
    fence(organization=organization)
    return row


def stop(row: Postpaid, *, reason: str, actor: Actor, now: datetime) -> None:
    """Lend nothing more of the line, whose terms are locked, until it may be drawn on again."""
    row.state, row.state_reason = PostpaidState.STOPPED, reason[:240]
    row.save(update_fields=["state", "state_reason"])
    _record(row, "postpaid.stopped", actor, now)


def resume(row: Postpaid, *, actor: Actor, now: datetime) -> None:
    """Lend the line again."""
    row.state, row.state_reason = PostpaidState.ACTIVE, ""
    row.save(update_fields=["state", "state_reason"])
    _record(row, "postpaid.resumed", actor, now)
    bus.announce("leases", str(row.organization_id))


def fence(*, organization: Organization) -> None:
    """Take back what gateways hold of a line that may not be drawn on; running requests end with what they have.

    Called after the state has been committed: a lease is granted under the line's lock, with the state read under it,
    so every lease from before is seen here.
    """
    with transaction.atomic():
        _line(organization.public_id)
        open_leases = selectors.line_leases(organization=organization.public_id)
    with transaction.atomic():
        leases.LIFE.begin_closing(lease_ids=open_leases)
        bus.announce("leases", str(organization.pk))


def _line(owner: str) -> LedgerAccount:
    account = ledger.account(Kind.POSTPAID_LINE, owner, currency=settings.CURRENCY)
    return locks.accounts([account.pk])[account.pk]


def _set_limit(row: Postpaid, actor: Actor, now: datetime) -> None:
    """Bring the limit's account to the terms', as far as what is drawn and held lets it fall."""
    owner = row.organization.public_id
    opened = ledger.accounts([(Kind.POSTPAID_LIMIT, owner), (Kind.POSTPAID_LINE, owner)], currency=settings.CURRENCY)
    locked = {account.kind: account for account in locks.accounts(each.pk for each in opened.values()).values()}
    line = locked[Kind.POSTPAID_LINE]
    change = row.limit_nano - balances.balance_of(locked[Kind.POSTPAID_LIMIT])
    if balances.free_of(line) + change < 0:
        raise LimitInUse(
            "more than that is drawn, or held by running requests",
            param="limit",
            fix="have the bills paid first, or end paying afterwards",
        )
    row.revision += 1
    if change:
        ledger.post(
            kind=selectors.LIMIT_KIND,
            key=f"postpaid-limit:{owner}:{row.revision}",
            source_type="postpaid",
            source_id=owner,
            transfers=credit_templates.postpaid_limit(organization=owner, change=change, currency=settings.CURRENCY),
            actor=actor,
            now=now,
        )
    bus.announce("leases", str(row.organization_id))


def _record(row: Postpaid, event: str, actor: Actor, now: datetime) -> None:
    owner = row.organization.public_id
    audit.record(
        actor=actor,
        event=event,
        subject=owner,
        now=now,
        organization=owner,
        detail={"limit_nano": str(row.limit_nano), "due_days": row.due_days, "reason": row.state_reason},
    )
